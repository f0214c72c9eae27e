# What the bundled buildpacks share. Sourced by every bin/supply and bin/finalize
# after BUILD, CACHE, DEPS and INDEX (and PROFILE) were set.
set -euo pipefail
shopt -s nullglob

BUILDPACK_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILDPACK_VERSION=$(<"$BUILDPACK_DIR/VERSION")

step() { echo "-----> $*"; }
info() { echo "       $*"; }

# fail LINE...: say what is wrong and what to do, and end.
fail() {
	local first=1 line
	for line in "$@"; do
		if ((first)); then echo "       **ERROR** $line" >&2; else echo "                 $line" >&2; fi
		first=0
	done
	exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

# need PROGRAM NAME PACKAGES: end unless the machine has the program.
need() {
	has "$1" || fail "$2 is not installed on this machine: there is no program '$1' in $PATH." \
		"Apps use the languages of the machine they run on." \
		"Ask its operator to install it (on Debian: apt-get install $3) and stage again."
}

# describe LANGUAGE: tell the platform who we are.
describe() {
	printf 'name: %s\nversion: "%s"\nconfig: {}\n' "$1" "$BUILDPACK_VERSION" >"$DEPS/$INDEX/config.yml"
}

# yaml_text TEXT: TEXT as a YAML string.
yaml_text() {
	local s=$1
	s=${s//\\/\\\\}
	s=${s//\"/\\\"}
	printf '"%s"' "$s"
}

# start TYPE COMMAND...: the default command of a process type. A Procfile wins.
start() {
	local file=$DEPS/$INDEX/launch.yml
	[[ -e $file ]] || echo 'processes:' >"$file"
	printf -- '- type: %s\n  command: %s\n' "$(yaml_text "$1")" "$(yaml_text "$2")" >>"$file"
}

procfile_has() { [[ -f $BUILD/Procfile ]] && grep -qE "^[\"']?$1[\"']?[[:space:]]*:" "$BUILD/Procfile"; }

# profile NAME: standard input becomes a script that runs before the app starts.
profile() {
	mkdir -p "$DEPS/$INDEX/profile.d"
	cat >"$DEPS/$INDEX/profile.d/$1"
}

# staging_environment: see what buildpacks before this one supplied.
staging_environment() {
	local dir file
	for dir in "$DEPS"/*/; do
		dir=${dir%/}
		[[ -d $dir/bin ]] && export PATH="$dir/bin:$PATH"
		[[ -d $dir/lib ]] && export LD_LIBRARY_PATH="$dir/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
		for file in "$dir"/env/*; do
			[[ -f $file ]] && export "$(basename "$file")=$(<"$file")"
		done
	done
	return 0
}

# launch_environment: let the app see what all buildpacks supplied.
launch_environment() {
	local dir index file
	mkdir -p "$PROFILE"
	{
		for dir in "$DEPS"/*/; do
			index=$(basename "$dir")
			[[ -d $dir/bin ]] && echo "export PATH=\"\$DEPS_DIR/$index/bin:\$PATH\""
			[[ -d $dir/lib ]] && echo "export LD_LIBRARY_PATH=\"\$DEPS_DIR/$index/lib\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}\""
		done
		echo 'export LANG="${LANG:-en_US.UTF-8}"'
	} >"$PROFILE/000_supplied.sh"
	for dir in "$DEPS"/*/; do
		index=$(basename "$dir")
		for file in "$dir"profile.d/*; do
			cp "$file" "$PROFILE/${index}_$(basename "$file")"
		done
	done
	return 0
}

# version_less A B: whether version A is older than B.
version_less() { [[ $1 != "$2" && $(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1) == "$1" ]]; }

# no_network WHAT HOW...: the message when something cannot be downloaded.
no_network() {
	local what=$1
	shift
	fail "$what could not be downloaded." "This build may have no way to the network. Then push them with the app:" "$@"
}
