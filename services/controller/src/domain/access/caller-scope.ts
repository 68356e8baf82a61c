/** How far a caller sees; what is undefined is all of it. */
import { anyName } from "./access-grant.ts";

export interface CallerScope {
  /** In order. */
  readonly namespaces: readonly string[] | undefined;
  readonly plugins: readonly string[] | undefined;
}

export const everything: CallerScope = { namespaces: undefined, plugins: undefined };

export const isBounded = ({ namespaces }: CallerScope): boolean => namespaces !== undefined;

export const seesNamespace = ({ namespaces }: CallerScope, namespace: string): boolean =>
  namespaces === undefined || namespaces.includes(namespace);

export const seesPlugin = ({ plugins }: CallerScope, plugin: string): boolean =>
  plugins === undefined || plugins.includes(anyName) || plugins.includes(plugin);

/** Of what goes on for long: what was seen at its begin and is seen still. `now` throws where nothing is. */
export const stillSees = (begun: CallerScope, now: () => CallerScope, namespace: string): boolean =>
  seesNamespace(begun, namespace) && seesNamespace(now(), namespace);
