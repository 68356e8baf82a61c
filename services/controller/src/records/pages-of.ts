/** A list from its first page to its last. */
export const pagesOf = async function* <P extends { readonly next?: string | undefined }>(
  list: (after: string | undefined) => Promise<P>,
): AsyncGenerator<P> {
  let after: string | undefined;
  do {
    const page = await list(after);
    yield page;
    after = page.next;
  } while (after !== undefined);
};
