import type { OptionSpec } from "./command.ts";
import { defaultAddress } from "./settings.ts";

/** Those that every command has. */
export const globalOptions: readonly OptionSpec[] = [
  {
    flags: "--address <address>",
    help: `where the controller listens, host:port or unix:///path (default ${defaultAddress})`,
  },
  {
    flags: "-n, --namespace <namespace>",
    help: "the namespace of volumes, claims and snapshots (default `default`)",
  },
  { flags: "--json", help: "answers for programs: JSON as the API defines it" },
  { flags: "--timeout <duration>", help: "how long to wait for work that was asked for (default 5m)" },
  { flags: "--identity <role/name>", help: "who calls, where the controller has no certificates to read it from" },
  {
    flags: "--certs <path>",
    help: "directory with tls.crt, tls.key and ca.crt, or one file: calls with that certificate",
  },
  { flags: "--colour <when>", help: "auto, always or never" },
  { flags: "--config <path>", help: "the file with settings (default ~/.config/holdfast/config.yaml)" },
];
