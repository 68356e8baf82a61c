/**
 * Where things are mounted. Ids are opaque, so directory names are hashes of them; CSI limits a path to 128 bytes, so the
 * hashes are cut at 128 bits. The target itself is made by the plugin, its parent and the staging directory by the agent.
 */
export interface VolumePaths {
  readonly staging: string;
  /** Parent of all targets of the volume. */
  readonly publish: string;
  readonly target: (claimUid: string) => string;
}

export interface HostPaths {
  readonly root: string;
  readonly stagingDir: string;
  readonly publishDir: string;
  of(plugin: string, externalId: string): VolumePaths;
  /** `publish` of the volume to which a path below staging/ or publish/ belongs; undefined for any other path. */
  publishOf(path: string): string | undefined;
}

/** "The CO SHALL ensure that the path is at most 128 bytes" is what CSI's size limit of strings comes to. */
const maxPathBytes = 128;
const hashChars = 32;
const longestBelowRoot = "/publish/".length + hashChars + 1 + hashChars;

export const maxRootBytes = maxPathBytes - longestBelowRoot;

/** `hash` gives lower-case hex, at least 32 characters of it. `root` is absolute, without a slash at its end. */
export const createHostPaths = (root: string, hash: (text: string) => string): HostPaths => {
  const short = (text: string) => hash(text).slice(0, hashChars);
  return {
    root,
    stagingDir: `${root}/staging`,
    publishDir: `${root}/publish`,
    of(plugin, externalId) {
      const name = short(`${plugin}|${externalId}`);
      const publish = `${root}/publish/${name}`;
      return {
        staging: `${root}/staging/${name}`,
        publish,
        target: (claimUid) => `${publish}/${short(claimUid)}`,
      };
    },
    publishOf(path) {
      const [area, name] = path.startsWith(`${root}/`) ? path.slice(root.length + 1).split("/") : [];
      return (area === "staging" || area === "publish") && name !== undefined ? `${root}/publish/${name}` : undefined;
    },
  };
};

const slash = 0x2f;

/** Is `path` this directory or below it? Asked of every line of mount tables: it makes no string. */
export const isUnder = (path: string, directory: string): boolean =>
  path.startsWith(directory) &&
  (path.length === directory.length || directory === "/" || path.charCodeAt(directory.length) === slash);
