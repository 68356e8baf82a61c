/**
 * The authority of this controller, in a directory that `holdfast ca renew` may replace at any time: it is read and checked for each
 * certificate.
 */
import { ConfigError } from "@holdfast/shared/config/config-error";
import type { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";
import { type Authority, AuthorityProblem, readAuthority } from "@holdfast/shared/trust/authority";
import { enrolmentOff } from "../commands/trust/trust-errors.ts";
import type { IssuingAuthority } from "../commands/trust/trust-model.ts";

export interface IssuingDirectoryDeps {
  /** undefined: this controller issues nothing. */
  readonly directory: string | undefined;
  /** Of this controller's own certificate; undefined: it has none. */
  readonly trustDomain: () => string | undefined;
  readonly now: () => number;
}

const off = "set HOLDFAST_CA_DIR to what `holdfast ca init` made, or have certificates from elsewhere";

const unusable = (directory: string, why: string): HoldfastError =>
  enrolmentOff(`${directory}: ${why}`, "renew it with `holdfast ca renew`, or correct HOLDFAST_CA_DIR");

/**
 * What is wrong at a start with what is configured. One that ended, or has not begun, keeps no controller from its work: it is told, and
 * nothing is issued.
 */
export const checkAtStart = async (
  { directory, trustDomain, now }: IssuingDirectoryDeps,
  log: Pick<Logger, "error">,
): Promise<void> => {
  if (directory === undefined) return;
  const wrong = (description: string) => new ConfigError([{ field: "HOLDFAST_CA_DIR", description }]);
  const own = trustDomain();
  if (own === undefined)
    throw wrong("needs HOLDFAST_TLS_DIR: without a certificate of its own no host could know this controller");
  try {
    await readAuthority(directory, { now: now(), trustDomain: own });
  } catch (error) {
    if (!(error instanceof AuthorityProblem)) throw error;
    if (!error.passing) throw wrong(`= ${directory} cannot be used: ${error.message}`);
    log.error("no certificate is issued", { directory, why: error.message, cure: "holdfast ca renew" });
  }
};

export const createIssuingDirectory = ({ directory, trustDomain, now }: IssuingDirectoryDeps): IssuingAuthority => ({
  async current(): Promise<Authority> {
    if (directory === undefined) throw enrolmentOff("it has no authority", off);
    const own = trustDomain();
    if (own === undefined)
      throw enrolmentOff("it has no certificate of its own, by which a host could know it", "set HOLDFAST_TLS_DIR");
    try {
      return await readAuthority(directory, { now: now(), trustDomain: own });
    } catch (error) {
      if (error instanceof AuthorityProblem) throw unusable(directory, error.message);
      throw error;
    }
  },
});
