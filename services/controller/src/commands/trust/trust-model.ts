/** Certificates as nodes, operators and everybody who has one may ask for them. */
import type { Identity } from "@holdfast/shared/grpc/identity";
import type { Authority } from "@holdfast/shared/trust/authority";
import type { Denial } from "../../domain/trust/denial.ts";
import type { Caller } from "../model.ts";

/** What signs. */
export interface IssuingAuthority {
  /** As it stands now, checked; throws ENROLMENT_OFF with the cure. */
  current(): Promise<Authority>;
}

export interface NewNodeToken {
  readonly token: string;
  readonly endsAt: number;
  readonly pin: string;
}

export interface IssuedCertificate {
  readonly certificate: string;
  readonly authorities: string;
}

export interface EnrolInput {
  readonly token: string;
  /** Empty: whichever the token names. */
  readonly node: string;
  readonly request: string;
}

export interface RevokeInput {
  readonly subject: string;
  readonly reason: string;
  /** undefined: when the last certificate of an authority of ours has ended. */
  readonly endsAt: number | undefined;
  readonly requestId: string;
}

export interface TrustCommands {
  createNodeToken(
    input: { readonly node: string; readonly ttlMs: number | undefined },
    caller: Caller,
  ): Promise<NewNodeToken>;
  enrol(input: EnrolInput, caller: Caller): Promise<IssuedCertificate & { readonly node: string }>;
  renew(request: string, by: Identity): Promise<IssuedCertificate>;
  revoke(input: RevokeInput, caller: Caller): Promise<Denial>;
  listRevoked(page: {
    readonly after: string | undefined;
    readonly size: number;
  }): Promise<{ readonly items: readonly Denial[]; readonly next: string | undefined }>;
}
