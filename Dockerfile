# One image for every role: the compose file says which command it runs.
FROM python:3.12-slim
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir -c constraints.txt .
ENV KERNELSWARM_HOME=/var/lib/kernelswarm
VOLUME /var/lib/kernelswarm
WORKDIR /var/lib/kernelswarm
ENTRYPOINT ["kernelswarm"]
CMD ["--help"]
