import { access } from "node:fs/promises";
import { DriverError } from "../domain/driver-error.ts";
import type { Contents } from "../ports.ts";
import { hostFailure } from "./host-failure.ts";
import { firstData } from "./image-extents.ts";
import type { RunTool } from "./run-tool.ts";

/** Of blkid -p: nothing was found; several signatures contradict each other. */
const nothingFound = 2;
const ambivalent = 8;

/** Read from the file, never from a loop device: what is known of a device may be what it carried a second ago. */
export async function imageContents(run: RunTool, image: string, signal: AbortSignal): Promise<Contents> {
  // blkid says "nothing found" of a file that cannot be opened, too.
  await access(image).catch((error: unknown) => {
    throw hostFailure(`read ${image}`, error);
  });
  const { code, stdout, stderr } = await run("blkid", ["-p", "-o", "export", "--", image], {
    signal,
    judges: [0, nothingFound, ambivalent],
  });
  if (code === ambivalent) return { kind: "signature", name: "several contradicting signatures" };
  if (code === 0) return signatureOf(image, stdout);
  if (stderr !== "")
    throw new DriverError("INTERNAL", `cannot tell what ${image} carries: blkid said: ${stderr}; nothing was changed`);
  const offset = await firstData(run, image, signal);
  return offset === undefined ? { kind: "blank" } : { kind: "data", offset };
}

function signatureOf(image: string, stdout: string): Contents {
  const found = new Map(
    stdout.split("\n").flatMap((line): [string, string][] => {
      const equals = line.indexOf("=");
      return equals < 0 ? [] : [[line.slice(0, equals), line.slice(equals + 1)]];
    }),
  );
  const type = found.get("TYPE");
  const table = found.get("PTTYPE");
  if (type !== undefined && found.get("USAGE") === "filesystem") return { kind: "filesystem", fsType: type };
  if (type !== undefined) return { kind: "signature", name: type };
  if (table !== undefined) return { kind: "signature", name: `${table} partition table` };
  throw new DriverError(
    "INTERNAL",
    `cannot tell what ${image} carries: blkid answered ${JSON.stringify(stdout.slice(0, 500))}; nothing was changed`,
  );
}
