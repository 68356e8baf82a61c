/** Names of ours: namespaces, volumes, aliases, nodes. Besides, none holds "..". */
export const idPattern = /^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$/;

export const isId = (text: string): boolean => idPattern.test(text) && !text.includes("..");
