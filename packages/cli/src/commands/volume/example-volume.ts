/** A spec file with every field of CreateVolumeRequest; a test holds it against the API. */
export const exampleVolume = (
  plugin: string,
): string => `# A volume: holdfast volume create data.yaml makes it; after an edit, holdfast volume apply data.yaml changes it.
# Every field: docs/reference, CreateVolumeRequest. "apply" marks those that can be changed later.

id: data
# namespace: default            # without it, that of --namespace
plugin: ${JSON.stringify(plugin)}

# How big. apply: upwards.
capacity:
  required_bytes: 10GiB
  # limit_bytes: 20GiB          # refuse to be made bigger than this

# How it may be used; a claim has to fit one of them. apply: while no claim needs what goes.
capabilities:
  - attachment_mode: file-system        # or block-device
    access_mode: single-node-writer     # or single-node-single-writer, multi-node-multi-writer, ...
    fs_type: ext4                       # without it, as the plugin decides
    # mount_flags: [noatime]
    # volume_mount_group: "1000"        # of plugins with VOLUME_MOUNT_GROUP

# Your own words, to find it by: holdfast volume list --label team=search. apply: as a whole.
# labels: { team: search }

# apply
# policy:
#   reclaim: delete             # or retain: the storage outlives a delete of the volume
#   node_loss: wait             # or fence: a lost node may be fenced, with evidence
#   requires_republish: false   # publish again from time to time
#   identity_tokens: [{ audience: storage, ttl: 1h }]

# The plugin's own words; its documentation lists them.
# parameters: { type: fast }
# mutable_parameters: { iops: "8000" }  # apply

# References to secrets, by the kind of call: holdfast secret put backend-login login.yaml. apply: as a whole.
# secrets:
#   create: { ref: "secret:backend-login" }       # and delete, list, snapshot, modify, controller_publish, controller_expand,
#   node_stage: { ref: "secret:backend-login" }   # node_publish, node_expand
# inline_secrets: { user: admin }               # or values in place of references; such a file cannot be applied again

# Filled with a snapshot, or with another volume, of the same namespace.
# content_source: { snapshot: data-monday }     # or { volume: other }

# Where it has to be reachable from, of plugins with topology.
# topology:
#   required: [{ segments: { "topology.example.com/zone": a } }]
#   preferred: []

# binding: immediate            # or first-claim: made for the node of its first claim
`;
