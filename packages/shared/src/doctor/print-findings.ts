import { ConfigError } from "../config/config-error.ts";
import { type Finding, fault } from "./finding.ts";

/** The whole of a service's `check`: a JSON line each; answers the exit code, 1 when there is a fault. */
export const printFindings = async (
  examine: () => Promise<readonly Finding[]>,
  write: (line: string) => void,
): Promise<number> => {
  let findings: readonly Finding[];
  try {
    findings = await examine();
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    findings = error.violations.map(({ field, description }) =>
      fault("settings", field, description, "docs/settings.md has every setting with its values"),
    );
  }
  for (const finding of findings) write(`${JSON.stringify(finding)}\n`);
  return findings.some(({ level }) => level === "fault") ? 1 : 0;
};
