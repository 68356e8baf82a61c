/** The fenced blocks of a page that a reader copies, as one bash session, and what the page shows of their output. */

export interface Block {
  readonly language: string;
  /** The words behind the language: `walk`, `walk last`, `walk exit=7`, `walk file=name`. */
  readonly words: readonly string[];
  readonly text: string;
  readonly line: number;
}

export interface Step {
  readonly page: string;
  readonly line: number;
  readonly script: string;
  readonly exit: number;
  /** The lines that the page shows. */
  readonly shown: readonly string[];
  readonly last: boolean;
}

export const blocksOf = (markdown: string): readonly Block[] => {
  const blocks: Block[] = [];
  let open: { fence: string; info: string; line: number; text: string[] } | undefined;
  for (const [nth, line] of markdown.split("\n").entries()) {
    if (open === undefined) {
      const [, fence, info] = /^(```+)(.*)$/.exec(line) ?? [];
      if (fence !== undefined) open = { fence, info: info ?? "", line: nth + 1, text: [] };
    } else if (line === open.fence) {
      const [language = "", ...words] = open.info.trim().split(/\s+/);
      blocks.push({ language, words, text: open.text.join("\n"), line: open.line });
      open = undefined;
    } else open.text.push(line);
  }
  if (open !== undefined) throw new Error(`the block of line ${open.line} is not closed`);
  return blocks;
};

const wordAfter = (words: readonly string[], name: string): string | undefined =>
  words.find((word) => word.startsWith(`${name}=`))?.slice(name.length + 1);

const heredocEnd = "END-OF-THE-FILE-OF-THE-WALK";

/** A block of a file is what the reader saves below $HF. */
const scriptOf = ({ words, text }: Block): string => {
  const file = wordAfter(words, "file");
  return file === undefined ? text : `cat > "$HF/${file}" <<'${heredocEnd}'\n${text}\n${heredocEnd}`;
};

export const stepsOf = (page: string, markdown: string): readonly Step[] => {
  const blocks = blocksOf(markdown);
  return blocks.flatMap((block, nth) => {
    if (!block.words.includes("walk")) return [];
    const next = blocks[nth + 1];
    return [
      {
        page,
        line: block.line,
        script: scriptOf(block),
        exit: Number(wordAfter(block.words, "exit") ?? "0"),
        shown: next?.language === "text" ? next.text.split("\n").filter((line) => line.trim() !== "") : [],
        last: block.words.includes("last"),
      },
    ];
  });
};

const mark = "@@step";

/** Ends at the first command that fails where the page does not say so. */
export const sessionOf = (steps: readonly Step[]): string =>
  [
    "set -euo pipefail",
    "exec 2>&1",
    ...steps.flatMap(({ script, exit }, nth) => [
      `echo "${mark} ${nth} begins"`,
      ...(exit === 0
        ? [script]
        : ["set +e", script, "CODE=$?", "set -e", `[ "$CODE" = ${exit} ] || { echo "exit code $CODE"; exit 1; }`]),
      `echo "${mark} ${nth} ends"`,
    ]),
  ].join("\n");

/** What one step printed; undefined: it did not end. */
export const outputOf = (output: string, nth: number): string | undefined =>
  output.split(`${mark} ${nth} begins\n`)[1]?.split(`${mark} ${nth} ends`, 2).length === 2
    ? output.split(`${mark} ${nth} begins\n`)[1]?.split(`${mark} ${nth} ends`)[0]
    : undefined;

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

const patternOf = (shown: string): RegExp =>
  new RegExp(
    `^${shown
      .trim()
      .split("<…>")
      .map((part) => part.split(/\s+/).map(escaped).join("\\s+"))
      .join(".*")}$`,
  );

/** The lines shown have to be there in this order, others may be between them; columns may be as wide as they like. */
export const missingLine = (shown: readonly string[], output: string): string | undefined => {
  const printed = output.split("\n").map((line) => line.trim());
  let from = 0;
  for (const line of shown) {
    const pattern = patternOf(line);
    const at = printed.findIndex((each, nth) => nth >= from && pattern.test(each));
    if (at === -1) return line;
    from = at + 1;
  }
  return undefined;
};
