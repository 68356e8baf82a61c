// The committed image of the protocol that `buf breaking` compares with, and the rule that it never moves in silence.
//
//   npm run api-baseline -- "what changed and why"
//
// makes proto/baseline.binpb anew and writes its line into CHANGELOG.md; `npm run check` wants the two to agree. A baseline of which the public
// API lacks something is never replaced: what is removed from both would be missed by nobody.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { bin, root } from "./paths.mjs";
import { Problem, reportFailure } from "./problem.mjs";

const image = path.join(root, "proto/baseline.binpb");
const changelog = path.join(root, "CHANGELOG.md");
/** New lines go below the first empty line after this heading's own words. */
const heading = "### Protocol baseline\n";

/** What is wrong with the baseline, or undefined. */
export function baselineProblem() {
  if (!existsSync(image)) return 'proto/baseline.binpb is missing: npm run api-baseline -- "first version"';
  const line = `sha256:${digest()}`;
  if (readFileSync(changelog, "utf8").includes(line)) return undefined;
  return `CHANGELOG.md does not name the committed baseline (${line}). Make it with: npm run api-baseline -- "what changed and why"`;
}

function makeBaseline(reason) {
  if (reason === undefined || reason.trim() === "")
    throw new Problem('say why: npm run api-baseline -- "what changed and why"', 64);
  const broken = breakOf(image);
  if (broken !== undefined)
    throw new Problem(
      `${broken}a client of an earlier release would break: docs/releases.md says how something is deprecated instead`,
    );
  // Without comments and positions: rewording a comment is no change of the protocol.
  const built = spawnSync(path.join(bin, "buf"), ["build", "--exclude-source-info", "--output", image], {
    cwd: root,
    stdio: "inherit",
  });
  if (built.status !== 0) throw new Problem("buf build failed; its own message stands above");
  if (baselineProblem() === undefined) return console.log("the baseline is unchanged");
  const text = readFileSync(changelog, "utf8");
  const words = text.indexOf(heading) + heading.length + 1;
  if (words <= heading.length) throw new Problem(`CHANGELOG.md has no heading "${heading.trim()}"`);
  const end = text.indexOf("\n\n", words);
  const at = end < 0 ? text.length : end + 1;
  const line = `\n- ${reason.trim()} (\`sha256:${digest()}\`)\n`;
  writeFileSync(changelog, `${text.slice(0, at)}${line}${text.slice(at).replace(/^\n(?=- )/, "")}`);
  console.log("proto/baseline.binpb and CHANGELOG.md are renewed: commit both");
}

/** What the public API has no more of an image, a line each, or undefined. What services say to each other may change with a release. */
function breakOf(against) {
  if (!existsSync(against)) return undefined;
  const { status, stdout } = spawnSync(
    path.join(bin, "buf"),
    ["breaking", "--against", against, "--error-format", "json"],
    { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] },
  );
  if (status === 0) return undefined;
  const found = stdout
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));
  if (found.length === 0) throw new Problem("buf breaking failed; its own message stands above");
  // A file that is gone is told with the path that it had in the image.
  const shared = found.filter((each) => !/(^|\/)holdfast\/internal\//.test(each.path ?? ""));
  if (shared.length === 0) return undefined;
  return shared
    .map((each) => `${each.path === undefined ? "" : `${each.path}:${each.start_line}: `}${each.message}\n`)
    .join("");
}

function digest() {
  return createHash("sha256").update(readFileSync(image)).digest("hex");
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    makeBaseline(process.argv[2]);
  } catch (error) {
    process.exitCode = reportFailure(error);
  }
}
