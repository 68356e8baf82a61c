/** One spelling for one path: no doubled and no trailing slashes, as the mount table writes it. "." and ".." were refused before. */
export const plainPath = (path: string): string => (path === "" ? "" : `/${path.split("/").filter(Boolean).join("/")}`);
