# A volume that follows its allocation from client to client: claimed before the tasks start, given back when they have ended.
# nomad job run claims.nomad.hcl, in the folder of the two scripts; docs/nomad.md says what the clients need.
job "web" {
  type = "service"

  group "web" {
    count = 1

    # The new allocation waits in the queue of the volume until the old one has given it back.
    update {
      max_parallel = 1
    }

    task "claim" {
      driver = "raw_exec"

      lifecycle {
        hook    = "prestart"
        sidecar = false
      }

      restart {
        attempts = 20
        interval = "10m"
        delay    = "1s"
        mode     = "fail"
      }

      template {
        data        = file("prestart.sh")
        destination = "local/prestart.sh"
        perms       = "755"
      }

      env {
        HOLDFAST_AGENT  = "unix:///run/holdfast/agent.sock"
        HOLDFAST_VOLUME = "data"
      }

      config {
        command = "local/prestart.sh"
      }
    }

    task "server" {
      driver = "exec"

      # The shared directory of the allocation is mounted into each of its tasks: the volume is /alloc/data.
      config {
        command = "/bin/sh"
        args    = ["-c", "date >> /alloc/data/starts; exec sleep infinity"]
      }
    }

    task "release" {
      driver = "raw_exec"

      lifecycle {
        hook = "poststop"
      }

      restart {
        attempts = 20
        interval = "10m"
        delay    = "1s"
        mode     = "fail"
      }

      template {
        data        = file("poststop.sh")
        destination = "local/poststop.sh"
        perms       = "755"
      }

      env {
        HOLDFAST_AGENT  = "unix:///run/holdfast/agent.sock"
        HOLDFAST_VOLUME = "data"
      }

      config {
        command = "local/poststop.sh"
      }
    }
  }
}
