# The `redrive` command with its drivers: docker build -t redrive . && docker run --rm redrive --help
FROM node:22-bookworm AS build
WORKDIR /build
COPY package.json package-lock.json tsconfig.json tsconfig.build.json ./
COPY scripts scripts
COPY src src
RUN npm install --no-save --ignore-scripts && npm run build && npm pack --ignore-scripts --pack-destination /tmp

FROM node:22-bookworm AS install
WORKDIR /app
COPY --from=build /tmp/redrive-*.tgz /tmp/
RUN npm init --yes > /dev/null \
 && npm install /tmp/redrive-*.tgz better-sqlite3@12 pg@8 amqplib mongodb@7 prom-client \
      @nats-io/transport-node @nats-io/jetstream @nats-io/kv

FROM node:22-bookworm-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=install --chown=node:node /app /app
# The module with your tasks is mounted at /app/work, so that it finds the packages above.
USER node
ENTRYPOINT ["/app/node_modules/.bin/redrive"]
CMD ["--help"]
