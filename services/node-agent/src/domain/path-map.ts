/**
 * One directory under two names: the agent's root as the host has it, and as a plugin's container sees it. Paths of staging
 * and publishing directories are told to a plugin in its own words, and nothing outside of the root has any.
 */
import { holdsControl } from "@holdfast/model/control-characters";
import { isUnder } from "./paths.ts";

export interface PathMap {
  /** Undefined for a path outside of the root: the plugin cannot see it. */
  toPlugin(hostPath: string): string | undefined;
  toHost(pluginPath: string): string | undefined;
}

/** Both are absolute and plain, as `isPlainPath` says. */
export const createPathMap = (host: string, container: string): PathMap => ({
  toPlugin: (path) => moved(path, host, container),
  toHost: (path) => moved(path, container, host),
});

/** For a plugin that runs with the host's own file tree. */
export const sameTree: PathMap = { toPlugin: (path) => path, toHost: (path) => path };

function moved(path: string, from: string, to: string): string | undefined {
  if (!isUnder(path, from) || path.split("/").includes("..")) return undefined;
  return `${to}${path.slice(from.length)}`;
}

/** Absolute, not "/" itself, without a slash at its end, empty or dotted components, or control characters. */
export function isPlainPath(path: string): boolean {
  const [root, ...components] = path.split("/");
  return (
    root === "" &&
    components.length > 0 &&
    components.every((part) => part !== "" && part !== "." && part !== "..") &&
    !holdsControl(path)
  );
}
