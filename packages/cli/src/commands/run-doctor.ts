import { type Finding, readFindings } from "@holdfast/shared/doctor/finding";
import { readEnvFile } from "../doctor/env-file.ts";
import { examineCell } from "../doctor/examine-cell.ts";
import { CliFailure } from "../frame/cli-failure.ts";
import type { Command } from "../frame/command.ts";
import type { Context } from "../frame/context.ts";
import { exitCodes } from "../frame/exit-code.ts";
import type { CheckedService } from "../frame/io.ts";
import { usage } from "./option-words.ts";

const marks: Readonly<Record<Finding["level"], string>> = { ok: "ok     ", warning: "warning", fault: "FAULT  " };

const findingText = ({ out }: Context, finding: Finding): string => {
  const paint = { ok: out.good, warning: out.warn, fault: out.bold }[finding.level];
  const lines = [`${paint(marks[finding.level])}  ${finding.id}  ${finding.subject}: ${finding.message}`];
  if (finding.cure !== "") lines.push(`         cure: ${finding.cure}`);
  return lines.map((line) => `${line}\n`).join("");
};

const ofService = async (
  context: Context,
  service: CheckedService,
  file: string | undefined,
): Promise<readonly Finding[]> => {
  if (file === undefined) return [];
  let text: string;
  try {
    text = new TextDecoder().decode(await context.io.readFile(file));
  } catch (error) {
    throw usage(`cannot read ${file}: ${error instanceof Error ? error.message : String(error)}`);
  }
  const answer = await context.io.checkService(service, readEnvFile(text));
  if (answer === undefined)
    throw new CliFailure({
      exitCode: exitCodes.failed,
      reason: "NO_SERVICE_HERE",
      message: `the program of the ${service} is not on this machine`,
      next: [`where it is: node services/${service}/src/main.ts check`],
    });
  return readFindings(answer);
};

export const runDoctor: Command = {
  path: ["doctor"],
  summary: "look for what is wrong, and name the cure",
  description:
    "Asks the controller about its store, nodes, plugins and what is stuck. With the environment files of services of this host it examines those too: settings, store, state, sockets, rights, mounts, clocks. Changes nothing; docs/doctor.md lists what it finds.",
  options: [
    { flags: "--controller-env <file>", help: "settings of a controller of this host", completes: "file" },
    { flags: "--agent-env <file>", help: "settings of an agent of this host", completes: "file" },
    { flags: "--no-cell", help: "do not ask the controller" },
  ],
  examples: [
    { line: "holdfast doctor", says: "what the controller knows" },
    { line: "holdfast doctor --agent-env /etc/holdfast/node-agent.env", says: "and this host" },
  ],
  async run(context, input) {
    const { clients, settings, io, out } = context;
    const findings = [
      ...(input.flag("cell") ? await examineCell(clients, settings.address, io.now()) : []),
      ...(await ofService(context, "controller", input.text("controller-env"))),
      ...(await ofService(context, "node-agent", input.text("agent-env"))),
    ];
    const faults = findings.filter(({ level }) => level === "fault").length;
    io.stdout.write(
      out.json
        ? `${JSON.stringify({ findings }, undefined, 2)}\n`
        : findings.map((finding) => findingText(context, finding)).join(""),
    );
    if (faults > 0)
      throw new CliFailure({
        exitCode: exitCodes.failed,
        reason: "FAULTS_FOUND",
        message: `${faults} ${faults === 1 ? "fault" : "faults"} found`,
      });
  },
};
