/**
 * How bodies go, by who asks: which field of a frame holds which method's, as in the proto (the same for the question and for its answer),
 * and as which body each goes by Transfer.
 */
import { AgentServiceDefinition } from "../../gen/holdfast/internal/v1/agent.ts";
import { AgentLinkServiceDefinition, TransferBody } from "../../gen/holdfast/internal/v1/controller_link.ts";

/** Who writes frames: the agent FromAgent, the controller ToAgent. */
export type StreamSide = "agent" | "controller";

export interface BodyFields {
  /** The service that is asked. */
  readonly service: string;
  readonly question: TransferBody;
  readonly answer: TransferBody;
  fieldOf(path: string): number | undefined;
  pathOf(field: number): string | undefined;
}

const ofAgent: Readonly<Record<keyof typeof AgentServiceDefinition.methods, number>> = {
  publish: 10,
  release: 11,
  expand: 12,
  stats: 13,
  inventory: 14,
  raiseFloor: 15,
  relay: 16,
  relayStream: 17,
  quiesce: 18,
  renew: 19,
};

const ofController: Readonly<Record<keyof typeof AgentLinkServiceDefinition.methods, number>> = {
  register: 10,
  report: 11,
  acknowledge: 12,
  requestClaims: 13,
  releaseClaims: 14,
  issueTokens: 15,
  greet: 16,
  getHealthSecrets: 17,
  makeVolume: 40,
  removeVolume: 41,
  findVolumes: 42,
};

/** By who asks. */
export const bodyFieldsOf: Readonly<Record<StreamSide, BodyFields>> = {
  controller: {
    ...bodyFields(AgentServiceDefinition, ofAgent),
    question: TransferBody.TRANSFER_BODY_ORDER,
    answer: TransferBody.TRANSFER_BODY_ANSWER,
  },
  agent: {
    ...bodyFields(AgentLinkServiceDefinition, ofController),
    question: TransferBody.TRANSFER_BODY_REQUEST,
    answer: TransferBody.TRANSFER_BODY_REPLY,
  },
};

interface Definition<Name extends string> {
  readonly fullName: string;
  readonly methods: Readonly<Record<Name, { readonly name: string }>>;
}

function bodyFields<Name extends string>(
  { fullName, methods }: Definition<Name>,
  fields: Readonly<Record<Name, number>>,
): Omit<BodyFields, "question" | "answer"> {
  const byPath = new Map<string, number>();
  const byField = new Map<number, string>();
  for (const name of Object.keys(fields) as Name[]) {
    const path = `/${fullName}/${methods[name].name}`;
    byPath.set(path, fields[name]);
    byField.set(fields[name], path);
  }
  return { service: fullName, fieldOf: (path) => byPath.get(path), pathOf: (field) => byField.get(field) };
}
