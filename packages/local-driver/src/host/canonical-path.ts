import { realpath } from "node:fs/promises";
import path from "node:path";
import { errnoOf, hostFailure } from "./host-failure.ts";

/**
 * As the kernel spells it: symlinks above the last part resolved. The last part itself is never looked at, since it may be the root of
 * a volume. The path itself when its parent is not there.
 */
export async function canonicalPath(file: string): Promise<string> {
  const normal = path.resolve(file);
  if (normal === "/") return normal;
  try {
    return path.join(await realpath(path.dirname(normal)), path.basename(normal));
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === "ENOENT" || errno === "ENOTDIR") return normal;
    throw hostFailure(`resolve ${file}`, error);
  }
}
