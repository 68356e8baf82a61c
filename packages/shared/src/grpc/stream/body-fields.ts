/** Which field of a frame holds which method's bodies, as in the proto: the same for the question and for its answer. */
import { AgentServiceDefinition } from "../../gen/holdfast/internal/v1/agent.ts";
import { AgentLinkServiceDefinition } from "../../gen/holdfast/internal/v1/controller_link.ts";

/** Who writes frames: the agent FromAgent, the controller ToAgent. */
export type StreamSide = "agent" | "controller";

export interface BodyFields {
  /** The service that is asked. */
  readonly service: string;
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
};

const ofController: Readonly<Record<keyof typeof AgentLinkServiceDefinition.methods, number>> = {
  register: 10,
  report: 11,
  acknowledge: 12,
  requestClaims: 13,
  releaseClaims: 14,
  issueTokens: 15,
  greet: 16,
};

/** By who asks. */
export const bodyFieldsOf: Readonly<Record<StreamSide, BodyFields>> = {
  controller: bodyFields(AgentServiceDefinition, ofAgent),
  agent: bodyFields(AgentLinkServiceDefinition, ofController),
};

interface Definition<Name extends string> {
  readonly fullName: string;
  readonly methods: Readonly<Record<Name, { readonly name: string }>>;
}

function bodyFields<Name extends string>(
  { fullName, methods }: Definition<Name>,
  fields: Readonly<Record<Name, number>>,
): BodyFields {
  const byPath = new Map<string, number>();
  const byField = new Map<number, string>();
  for (const name of Object.keys(fields) as Name[]) {
    const path = `/${fullName}/${methods[name].name}`;
    byPath.set(path, fields[name]);
    byField.set(fields[name], path);
  }
  return { service: fullName, fieldOf: (path) => byPath.get(path), pathOf: (field) => byField.get(field) };
}
