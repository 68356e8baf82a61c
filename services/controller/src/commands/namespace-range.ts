/**
 * Lists of what is in namespaces are in the order of their keys, `namespace/id`: within one namespace those with a prefix stand together. A list of
 * them begins there and ends with them, whatever index it is made from, so that neither what it reads nor where it goes on is of another
 * namespace.
 */
export interface NamespaceRange {
  readonly namespace: string;
  readonly idPrefix?: string;
}

interface KeyPage<T> {
  readonly items: readonly T[];
  /** The last key that was read. */
  readonly next: string | undefined;
}

/** Ids hold nothing that sorts behind "~". */
const justBefore = (prefix: string): string => {
  const last = prefix.length - 1;
  return `${prefix.slice(0, last)}${String.fromCharCode(prefix.charCodeAt(last) - 1)}~`;
};

/** Without a namespace the list is of all. */
export const pageInNamespace = async <T extends { readonly namespace: string }>(
  { namespace, idPrefix = "" }: NamespaceRange,
  after: string | undefined,
  read: (after: string | undefined) => Promise<KeyPage<T>>,
): Promise<KeyPage<T>> => {
  if (namespace === "") return await read(after);
  const prefix = `${namespace}/${idPrefix}`;
  const { items, next } = await read(after ?? justBefore(prefix));
  return {
    items: items.filter((item) => item.namespace === namespace),
    next: next?.startsWith(prefix) ? next : undefined,
  };
};
