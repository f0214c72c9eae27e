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

# What buildpacks are detected by: a file that comes or goes may mean another one.
DETECTED_BY=(package.json Staticfile go.mod '*.go' requirements.txt Pipfile setup.py pyproject.toml '*.py' composer.json '*.php'
	'htdocs/*.php' 'public/*.php' Gemfile config.ru nginx.conf '*.jar' '*.war' '*.java' src/main/java/ WEB-INF/ META-INF/MANIFEST.MF
	'bin/*' '*/bin/*' index.html)

# sync_unless FILE... -- NAME...: the app's folder in the droplet is what was pushed
# and what this build added, so that changes need no build, except of a FILE, which
# the build read, and unless a NAME comes or goes. Both are patterns; one that ends
# in a slash is a folder. To be called once, in finalize.
sync_unless() {
	local list=restage name
	{
		printf 'sync:\n  restage: ['
		while (($# > 0)); do
			if [[ $1 == -- ]]; then list=presence && printf ']\n  restage_presence: ['; else printf '%s, ' "$(yaml_text "$1")"; fi
			shift
		done
		[[ $list == presence ]] || printf ']\n  restage_presence: ['
		for name in "${DETECTED_BY[@]}"; do printf '%s, ' "$(yaml_text "$name")"; done
		printf ']\n'
	} >>"$DEPS/$INDEX/config.yml"
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
		echo 'export LANG="${LANG:-C.UTF-8}"'
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

# Messages of download programs when no server answers, and when a server
# answers that it does not have the file. The first is looked for first:
# pip says "No matching distribution found" for both.
NO_NETWORK='ENOTFOUND|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT|network timeout'
NO_NETWORK+='|no such host|name resolution|Name or service not known|Could not resolve|Network is unreachable|No route to host'
NO_NETWORK+='|connection refused|connection timed out|i/o timeout|NewConnectionError|ConnectTimeoutError|ReadTimeoutError'
NO_NETWORK+='|Could not reach host|Failed to open TCP|SocketError connection|lookup disabled by GOPROXY|curl error (5|6|7|28) '
NOT_FOUND='E404|404 Not Found|Not Found 404|410 Gone|ETARGET|No matching version found|No matching distribution found|Could not find gem'
NOT_FOUND+='|could not find any valid gem|unknown revision|Repository not found|could not read Username|not found: module|does not contain package'
NOT_FOUND+='|could not be found in any version|Could not find package|Could not find a matching version|could not be resolved to an installable'

# download WHAT FILE HOW COMMAND...: run a command that downloads WHAT, as FILE
# asks. If it fails, say which it is: wrong names, or no network and so HOW.
download() {
	local what=$1 file=$2 how=$3 log status=0 line
	shift 3
	log=$(mktemp)
	"$@" 2>&1 | tee "$log" || status=$?
	if ((status == 0)); then
		rm -f "$log"
		return 0
	fi
	if line=$(grep -iEm1 "$NO_NETWORK" "$log"); then
		fail "$what could not be downloaded: no server was reached." "It said: ${line:0:300}" \
			"The build could not reach the network. Push them with the app instead:" "$how"
	elif line=$(grep -iEm1 "$NOT_FOUND" "$log"); then
		fail "$what could not be downloaded: the server does not have one of them." "It said: ${line:0:300}" \
			"Check the names and versions in $file. (The network is fine: this is an answer.)"
	fi
	fail "$what could not be installed (exit status $status): the lines above say why." \
		"If the build could not reach the network, push them with the app:" "$how"
}
