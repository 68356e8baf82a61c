/** Certificates by way of a controller: tokens for nodes, enrolment of this host, and certificates that are taken no more. */
import path from "node:path";
import {
  CreateNodeTokenResponse,
  ListRevokedResponse,
  type Revoked,
  RevokeResponse,
} from "@holdfast/shared/gen/holdfast/v1/trust";
import { enrol } from "@holdfast/shared/grpc/enrol";
import { formatAddress, isBeyondHost, parseAddress } from "@holdfast/shared/grpc/listen-address";
import { createSilentLogger } from "@holdfast/shared/log/silent-logger";
import { pinPattern } from "@holdfast/shared/trust/authority";
import { writeCredentials } from "@holdfast/shared/trust/credential-dir";
import type { Command } from "../../frame/command.ts";
import { shown } from "../../frame/output.ts";
import { detailsText, tableText } from "../../frame/tables.ts";
import { ahead, moment } from "../../words/moment.ts";
import { allPages, pageSize } from "../all-pages.ts";
import { durationOf, millisOf, usage } from "../option-words.ts";
import { reasonOption } from "../repair/repair-verb.ts";

/** The address that a host has to write. A controller that listens on every address, or on loopback, does not know its own name: the name is then the one by which this command reached it. */
export const reachedAt = (agentAddress: string, asked: string): string => {
  const [agents, own] = [parseAddress(agentAddress), parseAddress(asked)];
  if (agents.kind === "unix" || own.kind === "unix") return agentAddress;
  const anywhere = /^\[?(0\.0\.0\.0|::)\]?$/.test(agents.host) || !isBeyondHost(agents);
  return formatAddress(anywhere ? { ...agents, host: own.host } : agents);
};

const tokenNode: Command = {
  path: ["node", "token"],
  summary: "make a token with which one host becomes a node, once",
  description:
    "Prints the command for that host, with the pin by which it knows the controllers. The token is worth a certificate until it is used or ends: hand it over as you would a password. It works for a node that has a certificate already, and also after a fence.",
  args: [{ name: "node", help: "the node's name, as its HOLDFAST_NODE" }],
  options: [{ flags: "--ttl <duration>", help: "how long it is good for; 15m at most, and without it" }],
  examples: [{ line: "holdfast node token node-a", says: "and run what it prints on node-a" }],
  async run({ clients, settings, out, io }, input) {
    const ttl = input.text("ttl");
    const node = input.arg("node");
    const answer = await clients.trust.createNodeToken({
      node,
      ...(ttl === undefined ? {} : { ttl: durationOf("--ttl", ttl) }),
    });
    const agentAddress = reachedAt(answer.agentAddress, settings.address);
    out.answer(
      shown("holdfast.v1.CreateNodeTokenResponse", CreateNodeTokenResponse, { ...answer, agentAddress }),
      () =>
        `# on ${node}, once, ${ahead(answer.expiresAt, io.now())} at the latest\nholdfast agent enrol --controller ${agentAddress} --pin ${answer.pin} --token ${answer.token} --out /etc/holdfast/tls\n`,
    );
  },
};

const enrolAgent: Command = {
  path: ["agent", "enrol"],
  summary: "give this host the certificate of a node, by a token",
  description:
    "Makes the key here; it never leaves this host. The controller has to lead to the root with the pin before the token is sent to it. Afterwards the agent renews the certificate by itself.",
  options: [
    { flags: "--controller <address>", help: "where agents reach a controller, host:port", required: true },
    { flags: "--pin <pin>", help: "of the root, as node token prints it", required: true },
    { flags: "--token <token>", help: "as node token prints it; - reads standard input", required: true },
    { flags: "--out <dir>", help: "the agent's HOLDFAST_TLS_DIR", required: true, completes: "file" },
    { flags: "--node <name>", help: "refuse the token of another node" },
  ],
  examples: [
    {
      line: "holdfast agent enrol --controller ctl.example:7602 --pin sha256:<pin> --token - --out /etc/holdfast/tls",
      says: "the token from standard input",
    },
  ],
  async run({ io, out }, input) {
    const given = (name: string): string => input.text(name) ?? "";
    const pin = given("pin");
    if (!pinPattern.test(pin)) throw usage(`--pin ${pin}: has to be sha256: and 64 hexadecimal digits`);
    const token = given("token") === "-" ? (await io.stdin()).trim() : given("token");
    const directory = path.resolve(given("out"));
    // Failures are told in words.
    const log = createSilentLogger();
    const { node, texts } = await enrol({ address: given("controller"), pin, token, node: given("node"), log });
    writeCredentials(directory, texts);
    io.stdout.write(
      out.json
        ? `${JSON.stringify({ node, dir: directory }, undefined, 2)}\n`
        : detailsText([
            ["Node", node],
            ["HOLDFAST_TLS_DIR", directory],
          ]),
    );
  },
};

const revokedTable = (revoked: readonly Revoked[]): string =>
  tableText(
    [
      { title: "CERTIFICATE", of: ({ subject }) => subject },
      { title: "SINCE", of: ({ revokedAt }) => moment(revokedAt) },
      { title: "UNTIL", of: ({ endsAt }) => moment(endsAt) },
      { title: "BY", of: ({ who }) => who },
      { title: "REASON", of: ({ reason }) => reason },
    ],
    revoked,
  );

const revokeCa: Command = {
  path: ["ca", "revoke"],
  summary: "take no call with a certificate any more, and end its connections",
  description:
    "A serial number is about one certificate: who has it may have renewed it. role/name is about every certificate of that name that was issued until now.",
  args: [{ name: "certificate", help: "a serial number, or role/name such as node/node-a" }],
  options: [reasonOption, { flags: "--for <duration>", help: "how long it is valid yet; 90d without it" }],
  examples: [
    { line: 'holdfast ca revoke node/node-a --reason "disk sold"', says: "whatever node-a has been issued" },
    { line: 'holdfast ca revoke 6C1B47233509DE12E7AF8AC081556A91 --reason "key in a backup"', says: "one certificate" },
  ],
  async run({ clients, out, io }, input) {
    const lasts = input.text("for");
    const answer = await clients.trust.revoke({
      subject: input.arg("certificate"),
      reason: input.text("reason") ?? "",
      ...(lasts === undefined ? {} : { endsAt: new Date(io.now() + millisOf("--for", lasts)) }),
    });
    out.answer(shown("holdfast.v1.RevokeResponse", RevokeResponse, answer), () =>
      revokedTable(answer.revoked === undefined ? [] : [answer.revoked]),
    );
  },
};

const listRevoked: Command = {
  path: ["ca", "revoked"],
  summary: "list the certificates that no call is taken with",
  examples: [{ line: "holdfast ca revoked", says: "until they have ended" }],
  async run({ clients, out }) {
    const revoked: Revoked[] = [];
    for await (const page of allPages((pageToken) => clients.trust.listRevoked({ pageSize, pageToken })))
      revoked.push(...page.revoked);
    out.answer(shown("holdfast.v1.ListRevokedResponse", ListRevokedResponse, { revoked, nextPageToken: "" }), () =>
      revoked.length === 0 ? "no certificate is revoked\n" : revokedTable(revoked),
    );
  },
};

export const enrolCommands: readonly Command[] = [tokenNode, enrolAgent, revokeCa, listRevoked];
