/**
 * Which secrets outside of Holdfast a namespace may refer to. Nothing is granted that the settings of the controller do not name:
 * a caller who may create a volume chooses the plugin that gets the value.
 */
import { parseSecretRef, type SecretPlace } from "./secret.ts";

interface Grant {
  /** Empty = every namespace. */
  readonly namespaces: readonly string[];
}

export interface SecretRoot extends Grant {
  readonly name: string;
  readonly dir: string;
}

export interface SecretScope {
  /** References `file:name/key` are files below `dir`. */
  readonly files: readonly SecretRoot[];
  /** References `env:NAME` with a name that begins so. */
  readonly env: readonly (Grant & { readonly prefix: string })[];
  /** References `vault:mount/path` that are this path or lie below it. */
  readonly vault: readonly (Grant & { readonly path: string })[];
}

/** A place that the namespace may use. `path` of a file is below `dir`, and has no `..` in it. */
export type GrantedPlace =
  | Exclude<SecretPlace, { readonly kind: "file" }>
  | { readonly kind: "file"; readonly dir: string; readonly path: string };

/** Whether records of the namespace may refer to it. */
export type SecretGrants = (namespace: string, ref: string) => boolean;

const isFor =
  (namespace: string | undefined) =>
  ({ namespaces }: Grant): boolean =>
    namespaces.length === 0 || (namespace !== undefined && namespaces.includes(namespace));

export const isAtOrBelow = (path: string, top: string): boolean =>
  path === top || path.startsWith(top.endsWith("/") ? top : `${top}/`);

/** undefined: no such reference, or none that the namespace may use; the two are not told apart. */
export const grantedPlace = (
  scope: SecretScope,
  namespace: string | undefined,
  ref: string,
): GrantedPlace | undefined => {
  const place = parseSecretRef(ref);
  const granted = isFor(namespace);
  switch (place?.kind) {
    case "file": {
      const root = scope.files.find((one) => one.name === place.root && granted(one));
      return root && { kind: "file", dir: root.dir, path: place.path };
    }
    case "env":
      return scope.env.some((one) => place.name.startsWith(one.prefix) && granted(one)) ? place : undefined;
    case "vault":
      return scope.vault.some((one) => isAtOrBelow(place.path, one.path) && granted(one)) ? place : undefined;
    default:
      return place;
  }
};

/**
 * Records of earlier versions hold `file:/absolute/path`. They are read where that path lies below a root that their namespace may use;
 * no request can write such a reference any more.
 */
export const formerFile = (
  scope: SecretScope,
  namespace: string | undefined,
  ref: string,
): GrantedPlace | undefined => {
  if (!ref.startsWith("file:/")) return undefined;
  const path = ref.slice("file:".length);
  for (const { name, dir } of scope.files.filter(isFor(namespace))) {
    if (!isAtOrBelow(path, dir)) continue;
    const place = grantedPlace(scope, namespace, `file:${name}${path.slice(dir.length)}`);
    if (place !== undefined) return place;
  }
  return undefined;
};
