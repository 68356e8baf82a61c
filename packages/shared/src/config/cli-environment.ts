import type { Logger } from "../log/logger.ts";

/**
 * The variables of the command line. Whoever exports them for `holdfast` and starts a service from the same shell has made no mistake in
 * the service's settings: a service passes them over, and has no setting of such a name.
 */
export const cliEnvironment = {
  address: "HOLDFAST_ADDRESS",
  namespace: "HOLDFAST_NAMESPACE",
  identity: "HOLDFAST_IDENTITY",
  certs: "HOLDFAST_CERTS",
  timeout: "HOLDFAST_TIMEOUT",
  colour: "HOLDFAST_COLOUR",
  config: "HOLDFAST_CONFIG",
} as const;

export const cliVariables: ReadonlySet<string> = new Set(Object.values(cliEnvironment));

/** One of them is a likely slip: a service that passes over the file it was meant to have starts with the defaults. */
export const warnOfCliConfig = (log: Pick<Logger, "warn">, env: Readonly<Record<string, string | undefined>>): void => {
  const file = env[cliEnvironment.config];
  if (file === undefined || file === "" || env["HOLDFAST_CONFIG_FILE"] !== undefined) return;
  log.warn(
    "HOLDFAST_CONFIG is the command line's and was not read; a file with settings of this service is named by HOLDFAST_CONFIG_FILE",
    { file },
  );
};
