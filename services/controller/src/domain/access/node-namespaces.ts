/** In which namespaces an agent may ask for claims on its node: its host may prepare workloads there. */
import { anyName } from "./access-grant.ts";

/** Without an operator's word: none where agents are proven ones, and every one where trust rests on the address alone. */
export const nodeNamespacesOf = (said: readonly string[] | undefined, proven: boolean): readonly string[] =>
  said ?? (proven ? [] : [anyName]);

export const nodesMayClaimIn = (namespaces: readonly string[], namespace: string): boolean =>
  namespaces.includes(anyName) || namespaces.includes(namespace);
