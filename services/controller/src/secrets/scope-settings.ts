/** The settings that grant secrets outside of Holdfast to namespaces. Without them nothing but stored secrets can be referred to. */
import { type Setting, stringSetting } from "@holdfast/shared/config/setting";
import { idPattern } from "../domain/limits.ts";
import type { SecretScope } from "../domain/secret/secret-scope.ts";

type Parsed<T> = { readonly value: T } | { readonly wrong: string };

/** One item is "what" or "what@ns1+ns2"; "@*" is every namespace, and no "@" the namespace default alone: the fewest. */
const parseItems = <T>(
  text: string,
  itemOf: (what: string, namespaces: readonly string[]) => T | undefined,
  form: string,
): Parsed<readonly T[]> => {
  const items: T[] = [];
  const said = text.split(",").map((item) => item.trim());
  for (const item of said.filter((one) => one !== "")) {
    const at = item.lastIndexOf("@");
    const what = at === -1 ? item : item.slice(0, at);
    const granted = at === -1 ? ["default"] : item.slice(at + 1).split("+");
    const everyone = granted.length === 1 && granted[0] === "*";
    const made = itemOf(what, everyone ? [] : granted);
    if (made === undefined || !(everyone || granted.every((one) => idPattern.test(one))))
      return {
        wrong: `item ${JSON.stringify(item)} has to be ${form}, with "@namespace+namespace" or "@*" behind it if wanted`,
      };
    items.push(made);
  }
  return { value: Object.freeze(items) };
};

const setting = <T>(
  env: string,
  doc: string,
  form: string,
  itemOf: (what: string, namespaces: readonly string[]) => T | undefined,
): Setting<readonly T[]> => {
  const none: readonly T[] = [];
  const parse = (text: string): Parsed<readonly T[]> => parseItems(text, itemOf, form);
  return { ...stringSetting({ env, doc, default: "" }), type: "list, separated by commas", default: none, parse };
};

type Item<Kind extends keyof SecretScope> = SecretScope[Kind][number];

const ownVariables = ["HOLDFAST_", "NODE_", "OTEL_", "LD_"];

/** A prefix of our own variables, or one that begins like them, would show the controller's own settings. */
const isOwn = (prefix: string): boolean => ownVariables.some((own) => own.startsWith(prefix) || prefix.startsWith(own));

export const secretScopeSettings = {
  secretFiles: setting<Item<"files">>(
    "HOLDFAST_SECRET_FILES",
    "Directories of secrets that records may refer to as file:name/key: name=/dir or name=/dir@namespace+namespace, @* for every namespace; without @ for the namespace default.",
    "name=/absolute/dir without ..",
    (what, namespaces) => {
      const [, name, dir] = /^([a-z0-9][a-z0-9._-]{0,62})=(\/[^\0]+)$/.exec(what) ?? [];
      if (name === undefined || dir === undefined || dir.split("/").includes("..")) return undefined;
      return { name, dir: dir.replace(/\/+/g, "/").replace(/\/$/, ""), namespaces };
    },
  ),
  secretEnv: setting<Item<"env">>(
    "HOLDFAST_SECRET_ENV",
    "Beginnings of the variables that records may refer to as env:NAME, such as STORAGE_ or STORAGE_@namespace+namespace.",
    "a beginning of names that ends in _ and is none of the controller's own (HOLDFAST_, NODE_, OTEL_, LD_)",
    (prefix, namespaces) =>
      /^[A-Za-z][A-Za-z0-9_]*_$/.test(prefix) && !isOwn(prefix) ? { prefix, namespaces } : undefined,
  ),
  secretVault: setting<Item<"vault">>(
    "HOLDFAST_SECRET_VAULT",
    "Mounts and paths in Vault that records may refer to as vault:mount/path, such as kv/storage or kv/storage@namespace+namespace.",
    "mount/path",
    (path, namespaces) =>
      /^[A-Za-z0-9_.~-]+(\/[A-Za-z0-9_.~-]+)*$/.test(path) &&
      !path.split("/").some((one) => one === "." || one === "..")
        ? { path, namespaces }
        : undefined,
  ),
};
