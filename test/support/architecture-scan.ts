/** What the scanner leaves of a file: the code with nothing in it that only looks like code. */
export type Scanned = {
  /** As long as the text, line by line; comments and the insides of strings, templates and regular expressions are blank. */
  code: string;
  strings: readonly { start: number; value: string }[];
  comments: readonly { start: number; value: string }[];
};

type Found = { start: number; value: string };
const regexMayFollow =
  /(?:^|[(,=:[!&|?{};+\-*%~^<>]|\b(?:return|typeof|case|in|of|void|await|yield|throw|default))\s*$/;

/**
 * Splits a TypeScript file into code, strings and comments, so that a rule that looks for `process` finds the identifier
 * and neither the word in a comment nor the one in a message. TypeScript 7 has no JavaScript API to ask instead.
 */
export function scanSource(text: string): Scanned {
  const code = [...blank(text)];
  const strings: Found[] = [];
  const comments: Found[] = [];
  const braces: ("block" | "template")[] = [];
  let at = 0;

  const keep = (count: number) => {
    for (let i = 0; i < count; i++, at++) code[at] = text.charAt(at);
  };
  const readQuoted = (quote: string) => {
    const start = at;
    keep(1);
    while (at < text.length && text[at] !== quote && text[at] !== "\n") at += text[at] === "\\" ? 2 : 1;
    strings.push({ start, value: text.slice(start + 1, at) });
    keep(1);
  };
  const readTemplate = (start: number) => {
    while (at < text.length && text[at] !== "`" && !text.startsWith("${", at)) at += text[at] === "\\" ? 2 : 1;
    strings.push({ start, value: text.slice(start + 1, at) });
    if (text[at] === "`") return keep(1);
    at += 1;
    keep(1);
    braces.push("template");
  };
  const readComment = (end: string) => {
    const start = at;
    const found = text.indexOf(end, at + 2);
    at = found < 0 ? text.length : found + (end === "\n" ? 0 : end.length);
    comments.push({ start, value: text.slice(start, at) });
  };
  const readRegex = () => {
    keep(1);
    for (let inClass = false; at < text.length && text[at] !== "\n" && (inClass || text[at] !== "/"); at++) {
      if (text[at] === "\\") at++;
      else if (text[at] === "[") inClass = true;
      else if (text[at] === "]") inClass = false;
    }
    keep(1);
  };
  const readBrace = (char: string) => {
    const opened = char === "{" ? braces.push("block") : braces.pop();
    keep(1);
    if (opened === "template") readTemplate(at - 1);
  };

  while (at < text.length) {
    const char = text.charAt(at);
    if (text.startsWith("//", at)) readComment("\n");
    else if (text.startsWith("/*", at)) readComment("*/");
    else if (char === '"' || char === "'") readQuoted(char);
    else if (char === "`") {
      keep(1);
      readTemplate(at - 1);
    } else if (char === "{" || char === "}") readBrace(char);
    else if (char === "/" && regexMayFollow.test(code.slice(Math.max(0, at - 40), at).join(""))) readRegex();
    else keep(1);
  }
  return { code: code.join("").slice(0, text.length), strings, comments };
}

function blank(text: string): string {
  return text.replace(/[^\n]/g, " ");
}

/** For each position the number of brackets open before it: 0 is the level of the module. */
export function depths(code: string): Uint16Array {
  const result = new Uint16Array(code.length);
  let depth = 0;
  for (let at = 0; at < code.length; at++) {
    if (")]}".includes(code.charAt(at)) && depth > 0) depth--;
    result[at] = depth;
    if ("([{".includes(code.charAt(at))) depth++;
  }
  return result;
}

export function lineAt(text: string, position: number): number {
  return text.slice(0, position).split("\n").length;
}
