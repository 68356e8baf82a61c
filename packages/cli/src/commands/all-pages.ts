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
