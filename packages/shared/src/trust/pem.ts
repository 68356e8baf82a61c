/** Texts of the form `-----BEGIN X----- … -----END X-----`, with anything between them. */

export interface PemBlock {
  readonly label: string;
  /** With its two lines. */
  readonly text: string;
}

const block = /-----BEGIN ([A-Z0-9 ]+)-----\r?\n[A-Za-z0-9+/=\r\n]+-----END \1-----/g;

/** Undefined when a block has no end, as in a file that is still being written. */
export function readPem(text: string): readonly PemBlock[] | undefined {
  const blocks = [...text.matchAll(block)].map(([whole, label = ""]) => ({ label, text: `${whole}\n` }));
  return blocks.length === text.split("-----BEGIN ").length - 1 ? blocks : undefined;
}
