/** One spelling for one path: no doubled and no trailing slashes, as the mount table writes it. A relative one stays as it is. */
export const plainPath = (path: string): string =>
  path.startsWith("/") ? `/${path.split("/").filter(Boolean).join("/")}` : path;
