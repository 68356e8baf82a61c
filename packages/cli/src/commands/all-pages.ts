/** All pages of a list, one after the other. */
export async function* allPages<Answer extends { readonly nextPageToken: string }>(
  page: (pageToken: string) => Promise<Answer>,
): AsyncIterable<Answer> {
  let token = "";
  do {
    const answer = await page(token);
    yield answer;
    token = answer.nextPageToken;
  } while (token !== "");
}

export const pageSize = 500;

/** The rows of all pages. */
export const allRows = async <Answer extends { readonly nextPageToken: string }, Row>(
  page: (pageToken: string) => Promise<Answer>,
  rowsOf: (answer: Answer) => readonly Row[],
): Promise<readonly Row[]> => {
  const rows: Row[] = [];
  for await (const answer of allPages(page)) rows.push(...rowsOf(answer));
  return rows;
};
