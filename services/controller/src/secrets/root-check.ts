/**
 * What no root of secrets may open: the controller's own memory, its keys and settings, and the kernel's view of its process. Whoever may
 * create a volume could send it to a plugin.
 */
import { realpathSync } from "node:fs";
import type { FieldViolation } from "@holdfast/shared/errors/holdfast-error";
import { isAtOrBelow, type SecretScope } from "../domain/secret/secret-scope.ts";

/** A path that the settings of the controller name, and why no secrets are read there. */
interface ForbiddenPlace {
  readonly path: string;
  readonly what: string;
}

interface RootCheckInput {
  readonly stateDir: string;
  readonly store: string | undefined;
  readonly secretKeys: string | undefined;
  readonly vaultTokenFile: string | undefined;
  readonly backup: string | undefined;
  readonly auditDir?: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
}

export const forbiddenPlaces = (input: RootCheckInput): readonly ForbiddenPlace[] => {
  const { stateDir, store, secretKeys, vaultTokenFile, backup, auditDir, env } = input;
  const sqlite = store?.startsWith("sqlite://") === true ? store.slice("sqlite://".length) : undefined;
  // HOLDFAST_CONFIG_FILE, and each file that holds the value of a setting.
  const named = Object.entries(env).filter(([name]) => name.startsWith("HOLDFAST_") && name.endsWith("_FILE"));
  const places: readonly (readonly [string | undefined, string])[] = [
    [stateDir, "the state directory (HOLDFAST_STATE_DIR)"],
    ["/etc/holdfast", "the directory of the services' settings"],
    ["/proc", "the environment of this process"],
    [sqlite, "the store (HOLDFAST_STORE)"],
    [secretKeys, "the key file (HOLDFAST_SECRET_KEYS)"],
    [vaultTokenFile, "the token for Vault (HOLDFAST_VAULT_TOKEN_FILE)"],
    [backup, "the backups (HOLDFAST_BACKUP)"],
    [auditDir, "the audit (HOLDFAST_AUDIT_DIR)"],
    ...named.map(([name, file]) => [file, `the file of ${name}`] as const),
  ];
  return places.flatMap(([path, what]) => (path?.startsWith("/") === true ? [{ path, what }] : []));
};

/** As far as it is there, without links: a root that is made later lies where its name says. */
const real = (path: string): string => {
  try {
    return realpathSync(path);
  } catch {
    const at = path.lastIndexOf("/");
    return at <= 0 ? path : `${real(path.slice(0, at)).replace(/\/$/, "")}${path.slice(at)}`;
  }
};

/** Every root that is, contains or lies inside such a place. */
export const unfitRoots = (
  { files }: Pick<SecretScope, "files">,
  forbidden: readonly ForbiddenPlace[],
): readonly FieldViolation[] =>
  files.flatMap(({ name, dir }) =>
    forbidden.flatMap(({ path, what }) => {
      const pairs = [
        [dir, path],
        [real(dir), real(path)],
      ] as const;
      if (!pairs.some(([root, place]) => isAtOrBelow(root, place) || isAtOrBelow(place, root))) return [];
      const description = `root ${name}=${dir} is, contains or lies inside ${path}, ${what}; put secrets into a directory of their own`;
      return [{ field: "HOLDFAST_SECRET_FILES", description }];
    }),
  );
