/** Lists of a caller that sees some namespaces only. */
import type { Page, PageInput } from "../../commands/model.ts";
import type { CallerScope } from "../../domain/access/caller-scope.ts";

/**
 * One list of all that the caller sees: its namespaces are asked for one after the other, so that no record of another one is read, and
 * places in a list tell nothing of those. A namespace that the filter names was held against the scope before.
 */
export const listWithin = async <Filter extends { readonly namespace: string }, T>(
  { namespaces }: CallerScope,
  filter: Filter,
  page: PageInput,
  list: (filter: Filter, page: PageInput) => Promise<Page<T>>,
): Promise<Page<T>> => {
  if (namespaces === undefined || filter.namespace !== "") return await list(filter, page);
  const { size, after } = page;
  const [from = "", cursor = ""] = after === undefined ? [] : splitAt(after);
  const items: T[] = [];
  let inner = cursor === "" ? undefined : cursor;
  for (const namespace of namespaces) {
    if (namespace < from) continue;
    if (items.length >= size) return { items, next: `${namespace} ` };
    const part = await list({ ...filter, namespace }, { ...page, size: size - items.length, after: inner });
    items.push(...part.items);
    if (part.next !== undefined) return { items, next: `${namespace} ${part.next}` };
    inner = undefined;
  }
  return { items, next: undefined };
};

const splitAt = (cursor: string): readonly [namespace: string, inner: string] => {
  const space = cursor.indexOf(" ");
  return [cursor.slice(0, space), cursor.slice(space + 1)];
};
