/**
 * What operators grant to a scheduler: namespaces, plugins and roots of secrets, and by which keys its word is known at agents. Without a grant a scheduler may do nothing; a root is
 * granted only as far as the settings of the controller grant it to the namespace.
 */
import { checkId, checkPlugin, type Violation } from "../limits.ts";
import { grantedPlace, type SecretScope } from "../secret/secret-scope.ts";

export interface AccessGrant {
  /** The name in its identity. */
  readonly scheduler: string;
  /** In order, each once. */
  readonly namespaces: readonly string[];
  readonly plugins: readonly string[];
  /** `file:<root>`, `env:<prefix>`, `vault:<path>`. */
  readonly secretRoots: readonly string[];
  /** JWKs of the keys that it signs tickets with; absent in records of before. With any, agents need tickets in its namespaces. */
  readonly ticketKeys?: readonly string[];
}

export interface AccessGrantRecord extends AccessGrant {
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly changedBy: { readonly who: string; readonly why: string };
}

/** In place of names: every one. */
export const anyName = "*";

const mostNamespaces = 500;
const mostNames = 100;
const schedulerPattern = /^[A-Za-z0-9]([A-Za-z0-9._:-]{0,126}[A-Za-z0-9])?$/;
const rootPattern =
  /^(file:[a-z0-9][a-z0-9._-]{0,62}|env:[A-Za-z_][A-Za-z0-9_]{0,126}|vault:[A-Za-z0-9_.~-]+(\/[A-Za-z0-9_.~-]+){0,16})$/;

export const checkScheduler = (scheduler: string): readonly Violation[] =>
  schedulerPattern.test(scheduler)
    ? []
    : [
        {
          field: "scheduler",
          description: "must be the name in the identity of the scheduler: letters, digits, '.', '_', ':', '-'",
        },
      ];

const checkList = (
  field: string,
  names: readonly string[],
  most: number,
  check: (field: string, name: string) => readonly Violation[],
): readonly Violation[] => [
  ...(names.length > most ? [{ field, description: `must not hold more than ${most}` }] : []),
  ...names.slice(0, most).flatMap((name, i) => check(`${field}[${i}]`, name)),
];

/** Names, or the word for every one alone. */
const checkNames = (
  field: string,
  names: readonly string[],
  check: (field: string, name: string) => readonly Violation[],
): readonly Violation[] => {
  if (!names.includes(anyName)) return checkList(field, names, mostNames, check);
  return names.length === 1 ? [] : [{ field, description: `must hold "${anyName}" alone, or names` }];
};

const checkRoot = (field: string, root: string): readonly Violation[] =>
  rootPattern.test(root)
    ? []
    : [{ field, description: `must be "file:<root>", "env:<prefix>", "vault:<path>", or "${anyName}" alone` }];

export const checkAccessGrant = ({
  scheduler,
  namespaces,
  plugins,
  secretRoots,
}: AccessGrant): readonly Violation[] => [
  ...checkScheduler(scheduler),
  ...(namespaces.length === 0 ? [{ field: "namespaces", description: "must name one or more" }] : []),
  ...checkList("namespaces", namespaces, mostNamespaces, checkId),
  ...checkNames("plugins", plugins, checkPlugin),
  ...checkNames("secret_roots", secretRoots, checkRoot),
];

const inOrder = (names: readonly string[]): readonly string[] => [...new Set(names)].sort();

export const accessGrantOf = (grant: AccessGrant): Required<AccessGrant> => {
  const { scheduler, namespaces, plugins, secretRoots, ticketKeys = [] } = grant;
  return {
    scheduler,
    namespaces: inOrder(namespaces),
    plugins: inOrder(plugins),
    secretRoots: inOrder(secretRoots),
    ticketKeys: inOrder(ticketKeys),
  };
};

const partsWith = (roots: readonly string[], kind: string): readonly string[] =>
  roots.flatMap((root) => (root.startsWith(`${kind}:`) ? [root.slice(kind.length + 1)] : []));

const scopeOf = (roots: readonly string[]): SecretScope => {
  const namespaces: readonly string[] = [];
  return {
    files: partsWith(roots, "file").map((name) => ({ name, dir: "/", namespaces })),
    env: partsWith(roots, "env").map((prefix) => ({ prefix, namespaces })),
    vault: partsWith(roots, "vault").map((path) => ({ path, namespaces })),
  };
};

/** Of references as callers write them. One that is malformed is for those to refuse who say what is wrong with it. */
export const grantsSecret = ({ secretRoots }: AccessGrant, ref: string): boolean =>
  secretRoots.includes(anyName) ||
  !/^(file|env|vault):/.test(ref) ||
  grantedPlace(scopeOf(secretRoots), undefined, ref) !== undefined;
