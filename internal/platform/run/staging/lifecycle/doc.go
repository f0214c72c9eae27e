// Package lifecycle runs buildpacks inside a staging instance and builds the droplet:
// it is the program ingot-builder, named after the buildpack lifecycle of Cloud
// Foundry. It also defines what the program and the server exchange: Plan in, Result
// and an exit status out.
//
// The home directory of a staging instance:
//
//	app/            the application: what buildpacks are given to build
//	buildpacks/N/   the buildpacks, in the order of the plan; read-only
//	cache/          what the last build of this application kept
//	stage/          plan.json, removed as soon as it was read
//	builder/        this program and those that buildpacks use; read-only
//	deps/ profile.d/ tmp/
//	out/droplet/    app, deps, profile.d, tmp, logs, staging_info.yml
//	out/meta/       result.json
//
// The steps, and the exit status when one fails:
//
//	detect ──▶ supply (all) ──▶ finalize (the last) ──▶ release ──▶ droplet
//	 222          225              226                    224
//	   └─────▶ compile, of a buildpack of the old kind ──────┘
//	             223
//
// If no bin/detect accepts the application, buildpacks get a second chance with
// bin/detect-last, an Ingot extension for weak evidence. Explicitly named
// buildpacks are used even if their detect fails; its output is shown.
//
// Everything it reads was written by the application or a buildpack, so files
// are bounded; but it runs as the same user and cannot protect anything from them.
// The server has to check the result.
//
// The program has to stay small and run in any root file system.
//
// Imports: base/fault, base/pattern, platform/instance/initproto,
// go.yaml.in/yaml/v2.
package lifecycle
