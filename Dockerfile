# One image per service: docker build --target controller .   (or node-agent, or sim-plugin)
FROM node:26-slim AS manifests
WORKDIR /app
COPY package.json package-lock.json ./
COPY packages/shared/package.json packages/shared/
COPY packages/csi/package.json packages/csi/
COPY packages/sim-plugin/package.json packages/sim-plugin/
COPY services/controller/package.json services/controller/
COPY services/node-agent/package.json services/node-agent/

# The generated code; needs the tools, which no image below carries.
FROM manifests AS generated
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY buf.yaml buf.gen.yaml ./
COPY scripts scripts
COPY proto proto
RUN npm run --silent generate

# Optional packages are tools and a Node binary: the image has its own Node.
FROM manifests AS runtime
ENV NODE_ENV=production
RUN npm ci --ignore-scripts --no-audit --no-fund --omit=dev --omit=optional && npm cache clean --force
COPY packages packages
COPY --from=generated /app/packages/shared/src/gen packages/shared/src/gen

FROM runtime AS controller
COPY services/controller services/controller
RUN mkdir -p /var/lib/holdfast-controller /run/holdfast/controller-plugins \
 && chown node:node /var/lib/holdfast-controller /run/holdfast/controller-plugins
USER node
EXPOSE 7600 7601
CMD ["node", "services/controller/src/main.ts"]

# Root: it makes directories for mounts and reads the mount tables of other processes.
FROM runtime AS node-agent
RUN apt-get update && apt-get install -y --no-install-recommends mount util-linux && rm -rf /var/lib/apt/lists/*
ENV UV_THREADPOOL_SIZE=16
COPY services/node-agent services/node-agent
EXPOSE 7610
CMD ["node", "services/node-agent/src/main.ts"]

# A simulator, for trying things out: plugin-main.ts (one half of the plugin) or backend-main.ts (its storage).
FROM runtime AS sim-plugin
RUN apt-get update && apt-get install -y --no-install-recommends mount && rm -rf /var/lib/apt/lists/* \
 && mkdir -p /run/holdfast/sim /run/holdfast/controller-plugins \
 && chown node:node /run/holdfast/sim /run/holdfast/controller-plugins
ENTRYPOINT ["node"]
