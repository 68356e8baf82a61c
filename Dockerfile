# One image per service: docker build --target controller .   (or node-agent, local-driver, cli)
#
# Every image runs with a read-only root: what is written is under the paths that docs/containers.md lists. tini is process 1: it
# passes signals on and collects the children that helpers leave behind.
#
# Where npm needs an authority or a registry of yours, give its settings as secrets, which stay in no image:
#   docker build --secret id=npmrc,src=npmrc --secret id=ca,src=ca.pem --target controller .      (npmrc: cafile=/run/secrets/ca)
ARG HOLDFAST_IMAGE_NODE=node:26-slim
# The bundle is the same for every processor: it is made on that of the builder, and an image for another one emulates the few steps of
# `runtime` alone.
FROM --platform=$BUILDPLATFORM ${HOLDFAST_IMAGE_NODE} AS manifests
WORKDIR /app
COPY package.json package-lock.json ./
COPY packages/shared/package.json packages/shared/
COPY packages/csi/package.json packages/csi/
COPY packages/model/package.json packages/model/
COPY packages/cli/package.json packages/cli/
COPY packages/sim-plugin/package.json packages/sim-plugin/
COPY packages/local-driver/package.json packages/local-driver/
COPY services/controller/package.json services/controller/
COPY services/node-agent/package.json services/node-agent/

# The bundle (docs/adr/0026-what-is-shipped-is-bundled.md), made by tools that no image below carries.
FROM manifests AS bundled
RUN --mount=type=secret,id=npmrc --mount=type=secret,id=ca \
    NPM_CONFIG_USERCONFIG=/run/secrets/npmrc npm ci --ignore-scripts --no-audit --no-fund
COPY buf.yaml buf.gen.yaml LICENSE ./
COPY scripts scripts
COPY proto proto
RUN npm run --silent generate
COPY deploy/package deploy/package
COPY packages packages
COPY services services
RUN npm run --silent bundle

FROM ${HOLDFAST_IMAGE_NODE} AS runtime
LABEL org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"
# In the process namespace of the host tini is not process 1, and collects children only on this word.
ENV NODE_ENV=production TINI_SUBREAPER=1
WORKDIR /app
RUN apt-get update && apt-get install -y --no-install-recommends tini && rm -rf /var/lib/apt/lists/*
COPY --from=bundled /app/dist ./
COPY deploy/healthcheck.mjs deploy/
# By the Node that reads it, at the place where it is read; for root, and for `node`.
RUN node bin/holdfast-compile-cache.mjs "$(id -u node)" && ln -s /app/bin/holdfast.mjs /usr/local/bin/holdfast
ENTRYPOINT ["/usr/bin/tini", "--"]

# Its directories are open to the group 0: it runs as `node` where the sockets of its plugins are open to it, and as root with every
# capability dropped where they belong to root.
FROM runtime AS controller
LABEL org.opencontainers.image.title="holdfast-controller" \
      org.opencontainers.image.description="Holdfast: volumes, claims and calls to controller plugins"
RUN mkdir -p /var/lib/holdfast-controller /run/holdfast/controller-plugins \
 && chown node:0 /var/lib/holdfast-controller /run/holdfast/controller-plugins \
 && chmod 0770 /var/lib/holdfast-controller /run/holdfast/controller-plugins
USER node
EXPOSE 7600 7601 7602
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["node", "deploy/healthcheck.mjs", "127.0.0.1:7601"]
CMD ["node", "--disable-sigusr1", "bin/holdfast-controller.mjs"]

# Root: it makes directories for mounts and reads the mount tables of other processes. /etc/machine-id is mounted from the host,
# read-only; the image has none, so that an agent without the mount says what is missing.
FROM runtime AS node-agent
LABEL org.opencontainers.image.title="holdfast-node-agent" \
      org.opencontainers.image.description="Holdfast: stages and mounts volumes on one node"
RUN apt-get update && apt-get install -y --no-install-recommends mount util-linux && rm -rf /var/lib/apt/lists/* /etc/machine-id
ENV UV_THREADPOOL_SIZE=16
EXPOSE 7611
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["node", "deploy/healthcheck.mjs", "127.0.0.1:7611"]
CMD ["node", "--disable-sigusr1", "bin/holdfast-node-agent.mjs"]

# Root: it makes filesystems, loop devices and mounts.
FROM runtime AS local-driver
LABEL org.opencontainers.image.title="holdfast-local-driver" \
      org.opencontainers.image.description="Holdfast: a CSI driver of directories and loop devices for one host"
RUN apt-get update \
 && apt-get install -y --no-install-recommends e2fsprogs findutils mount util-linux xfsprogs && rm -rf /var/lib/apt/lists/*
ENV UV_THREADPOOL_SIZE=16
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["node", "deploy/healthcheck.mjs", "127.0.0.1:7621"]
CMD ["node", "--disable-sigusr1", "bin/holdfast-local-driver.mjs"]

FROM runtime AS cli
LABEL org.opencontainers.image.title="holdfast-cli" \
      org.opencontainers.image.description="Holdfast: the command line"
COPY deploy/compose deploy/compose
USER node
ENTRYPOINT ["/usr/bin/tini", "--", "node", "bin/holdfast.mjs"]
CMD ["--help"]
