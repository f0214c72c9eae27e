// Package lifecycle makes a droplet of an application with buildpacks. It is
// the whole of the program ingot-builder, which runs inside a staging instance,
// and the words that it and the server exchange: Plan in, Result and an exit
// status out.
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
// When no bin/detect takes the application, buildpacks with a bin/detect-last are
// asked by that: our own word, for signs that mean something only if nothing else
// was found. Buildpacks that are named need not detect it; what they say is shown.
//
// Everything it reads was written by the application or a buildpack, so files
// are bounded; but it runs as the same user as they do and guards nothing from
// them. The server has to judge what comes out.
//
// The program has to stay small and run in any root file system.
//
// Imports: go.yaml.in/yaml/v2.
package lifecycle
