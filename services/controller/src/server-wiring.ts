/** A part of the composition root: what listens. */
import type { Access, Trust } from "@holdfast/shared/grpc/access";
import { identityFromMetadata, identityOfLocalSocket } from "@holdfast/shared/grpc/identity";
import { createGrpcServer, type GrpcServer, type ServerCertificates } from "@holdfast/shared/grpc/server";
import { createStrangerCalls } from "@holdfast/shared/grpc/stranger-calls";
import { ServeWireDefinition } from "@holdfast/shared/grpc/stream/serve-wire";
import { createAdminServer } from "@holdfast/shared/http/admin-server";
import type { Lifecycle } from "@holdfast/shared/lifecycle";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Metrics } from "@holdfast/shared/metrics";
import { type CertificateKeeper, createCertificateKeeper } from "@holdfast/shared/trust/certificate-keeper";
import type { ControllerConfig } from "./config.ts";
import { createLinkService, type LinkServiceOptions } from "./nodes/link-service.ts";
import type { StoreGate } from "./ports.ts";
import type { TokenSigner } from "./secrets/tokens/token-signer.ts";
import { serveDiscovery } from "./token-wiring.ts";

export interface ServerParts {
  readonly config: ControllerConfig;
  readonly trust: Trust;
  readonly access: Access;
  readonly gate: StoreGate;
  readonly lifecycle: Pick<Lifecycle, "start">;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** Which certificates no call is taken with. */
  readonly denied: Pick<ServerCertificates, "isDenied" | "onDenied">;
  readonly signer: TokenSigner;
}

/** Callers who sent no deadline may ask for the longest wait that there is. */
const defaultDeadlineMs = 11 * 60_000;

/** Clients spread anew over the controllers, and take addresses that changed. Watches and waits go on where they are. */
const connectionAgeMs = 3_600_000;

/** Watches, of all callers and of one: a scheduler has few, and one that opens ever more of them leaves the others their half. */
const maxOpenStreams = 4_096;
const maxOpenStreamsPerCaller = maxOpenStreams / 2;

/** Of one agent: a stream and one that replaces it, its bodies that go beside, and those that it gave up. */
const streamsPerAgent = 32;
/** Frames and chunks have at most 64 KiB; one that is larger is refused by name and not by the library. */
const agentMessageBytes = 256 * 1024;
const maxAgentConnections = 16_384;
const maxAgentStreams = 100_000;
/** A host that vanished without a word is noticed within fifteen seconds. */
const agentKeepalive = { timeMs: 10_000, timeoutMs: 5_000 };
/** For the last words, after every stream was told that it ends. */
const agentGraceMs = 1_000;

export interface Listening {
  readonly address: string;
  /** Where agents reach this controller. */
  readonly agents: string;
}

/** What the streams of agents lead to. */
type LinkParts = Pick<LinkServiceOptions, "admission" | "streams" | "link" | "clock">;

export interface Servers {
  readonly server: GrpcServer;
  /** Serves those, and says so; answers where it listens. */
  listen(services: readonly string[], link: LinkParts, addTrust: AddForAgents): Promise<Listening>;
  /** Of this controller; undefined where there is no TLS. */
  readonly keeper: CertificateKeeper | undefined;
}

/** Serves what agents may ask about certificates, some of them before they have one; answers its name. */
export type AddForAgents = (server: Pick<GrpcServer, "add">) => string;

/** Of this controller; undefined where there is no TLS. Throws when its files cannot be used. */
export const openCertificates = ({ config, log, metrics }: Pick<ServerParts, "config" | "log" | "metrics">) =>
  config.tlsDir === undefined
    ? undefined
    : {
        keeper: createCertificateKeeper({
          path: config.tlsDir,
          setting: "HOLDFAST_TLS_DIR",
          wanted: { roles: ["controller"] },
          log,
          metrics,
        }),
      };

/** Without certificates: whoever may open a unix socket is a local program, unless it says more of itself. */
const identityAt = (address: string) => (address.startsWith("unix:") ? identityOfLocalSocket : identityFromMetadata);

export const createAgentServer = (
  { config, access, log, metrics }: Pick<ServerParts, "config" | "access" | "log" | "metrics">,
  certificates?: ServerCertificates,
) =>
  createGrpcServer({
    log,
    metrics,
    ...(certificates === undefined ? {} : { certificates }),
    insecure: config.insecure,
    identity: identityAt(config.agentListen),
    access,
    defaultDeadlineMs,
    reflection: false,
    limits: {
      maxMessageBytes: agentMessageBytes,
      maxConcurrentStreams: streamsPerAgent,
      maxConnections: maxAgentConnections,
      maxOpenStreams: maxAgentStreams,
      keepalive: agentKeepalive,
    },
  });

export const wireServers = (own: ServerParts): Servers => {
  const { config, trust, access, gate, lifecycle, log, metrics, denied } = own;
  const { insecure } = config;
  const opened = openCertificates({ config, log, metrics });
  const certificates = opened && { ...opened, ...denied, strangers: createStrangerCalls() };
  const server = createGrpcServer({
    log,
    metrics,
    ...(certificates === undefined ? {} : { certificates }),
    insecure,
    identity: identityAt(config.listen),
    access,
    // It answers before anybody knows who asks.
    reflection: trust === "loopback",
    defaultDeadlineMs,
    limits: {
      maxInFlight: config.maxInFlight,
      maxInFlightPerCaller: config.maxInFlightPerCaller,
      maxPerSecondPerCaller: config.maxPerSecondPerCaller,
      maxConcurrentStreams: config.maxStreamsPerConnection,
      maxOpenStreams,
      maxOpenStreamsPerCaller,
      maxConnections: config.maxConnections,
      connectionAgeMs,
    },
  });
  const agents = createAgentServer({ config, access, log, metrics }, certificates);
  return {
    server,
    keeper: certificates?.keeper,
    async listen(services, parts, addTrust) {
      const at = { address: "", agents: "" };
      const link = createLinkService({
        ...parts,
        surround: agents.surround,
        ownEnd: () => certificates?.keeper.current().notAfter,
        log,
        endOfTurn: setImmediate,
      });
      const agentServices = ["", ServeWireDefinition.fullName];
      await lifecycle.start("certificates", () => certificates?.keeper.stop);
      // Before the schedulers' one: what they ask first needs the agents, and what they asked last is done over these streams.
      await lifecycle.start("gRPC of agents", async () => {
        agents.add(ServeWireDefinition, link);
        agentServices.push(addTrust(agents));
        at.agents = await agents.listen(config.agentListen);
        return async () => {
          await link.leave(config.stopGrace);
          await agents.stop({ graceMs: agentGraceMs });
        };
      });
      await lifecycle.start("gRPC", async () => {
        at.address = await server.listen(config.listen);
        return () => server.stop({ graceMs: config.stopGrace });
      });
      await lifecycle.start("admin", async () => {
        const notReady = () => (gate.state().open ? [] : [gate.state().reason]);
        const admin = createAdminServer({ log, metrics, insecure, notReady });
        log.info("admin listening", { address: await admin.listen(config.adminListen) });
        return () => admin.stop();
      });
      await serveDiscovery(config, { ...own, strangers: certificates?.strangers });
      for (const service of ["", ...services]) server.setServing(service, true);
      for (const service of agentServices) agents.setServing(service, true);
      return at;
    },
  };
};
