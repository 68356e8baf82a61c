import type { Command } from "../../frame/command.ts";
import { exampleVolume } from "./example-volume.ts";

export const initVolume: Command = {
  path: ["volume", "init"],
  summary: "print an example of a volume's file, with a comment for each field",
  description: "Asks no controller. What stands behind # may be left out.",
  options: [{ flags: "--plugin <plugin>", help: "the CSI plugin that it names", completes: "plugin" }],
  examples: [
    {
      line: "holdfast volume init",
      says: "into data.yaml by > data.yaml, to be edited, and made by volume create data.yaml",
    },
  ],
  async run({ io }, input) {
    io.stdout.write(exampleVolume(input.text("plugin") ?? "local.holdfast.dev"));
  },
};
