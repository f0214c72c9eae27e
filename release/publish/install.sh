#!/bin/sh
# Installs Ingot @VERSION@, starts it, and prints the link to its console.
#
#   curl -fsSL @URL@/install.sh | sh
#   sh install.sh              from a folder with the files of a release, without network
#   sh install.sh --help       lists the options
set -eu

release=@VERSION@
url=@URL@

usage() {
  cat <<END
Install Ingot $release.

Usage: install.sh [OPTION...]

  --user          install for this user, in ~/.local (the default without root)
  --version X     install version X
  --from PLACE    URL or folder of the release files (variable INGOT_RELEASE_URL);
                  default: the folder of this script if it has SHA256SUMS, or
                  $url
  --key FILE      require a signature by this OpenPGP public key (INGOT_RELEASE_KEY)
  --tarball       do not use apt or dnf, also where they exist
  --no-demo       do not create the org demo with the space dev
  --no-start      only install
  --uninstall     remove Ingot; asks whether to delete the data
  --purge         with --uninstall: delete the data without asking
  --help          show this help

As root it installs a package with apt or dnf where these exist, otherwise an archive in
/usr/local. Run it again to upgrade: apps keep running.
END
}

say() { printf '%s\n' "$*"; }
die() {
  printf 'install.sh: %s\n' "$1" >&2
  shift
  for line; do printf '  %s\n' "$line" >&2; done
  exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# --- options and machine -----------------------------------------------------

options() {
  user='' wanted='' from=${INGOT_RELEASE_URL:-} key=${INGOT_RELEASE_KEY:-} tarball='' demo=1 start=1 uninstall='' purge=''
  while [ $# -gt 0 ]; do
    case $1 in
    --user) user=1 ;;
    --version | --from | --key)
      [ -n "${2:-}" ] || die "$1 needs a value: see install.sh --help"
      case $1 in --version) wanted=${2#v} ;; --from) from=$2 ;; --key) key=$2 ;; esac
      shift
      ;;
    --tarball) tarball=1 ;;
    --no-demo) demo='' ;;
    --no-start) start='' ;;
    --uninstall) uninstall=1 ;;
    --purge) purge=1 ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) die "unknown option $1: see install.sh --help" ;;
    esac
    shift
  done
  [ -z "$purge" ] || [ -n "$uninstall" ] || die "--purge deletes data, and is for --uninstall only"
}

# Sets system, arch, and the places for root or a user.
machine() {
  case $(uname -s) in
  Linux) system=linux ;;
  Darwin) system=darwin tarball=1 start='' ;;
  *) die "there is no Ingot for $(uname -s)" "The client for Windows: scoop install $url/ingot.json" ;;
  esac
  case $(uname -m) in
  x86_64 | amd64) arch=amd64 rpmarch=x86_64 ;;
  aarch64 | arm64) arch=arm64 rpmarch=aarch64 ;;
  *) die "Ingot is published for x86_64 and aarch64, and this machine is $(uname -m)" \
    "Build it from source, which needs Go, git and make: make build" ;;
  esac
  if [ "$(id -u)" != 0 ] && [ -z "$user" ]; then
    user=1
    say "Not root: Ingot is installed for this user. For the whole machine, run this script with sudo."
  fi
  if [ -n "$user" ]; then
    [ "$(id -u)" != 0 ] || die "--user is for ordinary users: leave it out, or run this script as one"
    [ -d "${HOME:-}" ] || die "HOME is not a folder: set it, or install as root without --user"
    tarball=1 prefix=$HOME/.local units=${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user
    data=${XDG_DATA_HOME:-$HOME/.local/share}/ingot log=$HOME/.local/state/ingot.log
  else
    prefix=/usr/local units=/etc/systemd/system data=/var/lib/ingot log=/var/log/ingot.log
  fi
  installed=$prefix/lib/ingot/installed # the files of an archive
  manager=''
  if [ -z "$tarball" ] && [ ! -e "$installed" ]; then
    if have apt-get && have dpkg; then manager=apt; elif have dnf; then manager=dnf; fi
  fi
  if [ -n "$manager" ]; then ingot=/usr/bin/ingot; else ingot=$prefix/bin/ingot; fi
}

systemd() { # the manager of the machine or of this user runs
  have systemctl || return 1
  if [ -n "$user" ]; then
    systemctl --user show-environment >/dev/null 2>&1
  else
    [ -d /run/systemd/system ]
  fi
}
control() { if [ -n "$user" ]; then systemctl --user "$@"; else systemctl "$@"; fi; }

# --- download and verify -------------------------------------------------------

# Sets from to a URL, or to a folder with ./ or / before it.
place() {
  case $0 in
  install.sh | */install.sh) # not sh, which runs what it reads
    if [ -z "$from" ] && [ -f "$(dirname "$0")/SHA256SUMS" ]; then from=$(dirname "$0"); fi
    ;;
  esac
  if [ -z "$from" ]; then
    from=$url
    if [ -n "$wanted" ]; then
      case $url in
      *"$release"*) from=${url%%"$release"*}$wanted${url#*"$release"} ;;
      esac
    fi
  fi
  case $from in
  file://*) from=${from#file://} ;;
  *://*) return ;;
  esac
  [ -d "$from" ] || die "$from is not a folder" "Pass the folder or the URL of a release with --from."
  from=$(cd "$from" && pwd)
}

# fetch NAME [optional]: copies a file of the release to $tmp.
fetch() {
  case $from in
  /*) if [ -f "$from/$1" ]; then cp "$from/$1" "$tmp/$1"; else false; fi ;;
  *)
    if have curl; then
      curl -fsSL --retry 3 --connect-timeout 20 -o "$tmp/$1" "$from/$1"
    elif have wget; then
      wget -q -T 20 -O "$tmp/$1" "$from/$1"
    else
      die "neither curl nor wget is installed" "Install one of them, for example: apt-get install curl" \
        "Or copy the release files to this machine, and run install.sh from that folder."
    fi
    ;;
  esac && return
  [ $# -gt 1 ] || die "$from/$1 could not be fetched" "Check the address with a browser, or pass another one with --from."
  return 1
}

sha256() {
  if have sha256sum; then
    sha256sum "$1"
  elif have shasum; then
    shasum -a 256 "$1"
  elif have openssl; then
    openssl dgst -sha256 -r "$1"
  fi | cut -d ' ' -f 1
}

# signature: verifies SHA256SUMS with the given key.
signature() {
  [ -f "$key" ] || die "the key $key does not exist"
  have gpgv || die "a signature cannot be verified without gpgv" "Install it, for example: apt-get install gpgv"
  if [ "$(head -c 5 "$key")" = ----- ]; then
    sed -e '1,/^$/d' -e '/^[=-]/,$d' "$key" | base64 -d >"$tmp/key.gpg"
  else
    cp "$key" "$tmp/key.gpg"
  fi
  fetch SHA256SUMS.asc optional 2>/dev/null || die "$from is not signed: it has no SHA256SUMS.asc" \
    "Nothing was installed. Leave out --key to install it without a signature."
  gpgv --keyring "$tmp/key.gpg" "$tmp/SHA256SUMS.asc" "$tmp/SHA256SUMS" >"$tmp/gpgv.log" 2>&1 || {
    cat "$tmp/gpgv.log" >&2
    die "SHA256SUMS is not signed by the key in $key" "Nothing was installed. Do not use these files."
  }
  say "The signature is good."
}

# listed PATTERN: prints the name in SHA256SUMS that matches.
listed() {
  while read -r sum name; do
    # shellcheck disable=SC2254 # a pattern
    case $name in $1) printf '%s\n' "$name" && return ;; esac
  done <"$tmp/SHA256SUMS"
  return 1
}

# download: fetches the file to install and verifies it. Sets file and version.
download() {
  have sha256sum || have shasum || have openssl ||
    die "checksums cannot be verified without sha256sum" "Install it: the package is coreutils."
  place
  say "Installing Ingot from $from"
  fetch SHA256SUMS
  [ -z "$key" ] || signature
  file=$(listed "ingot_*_${system}_$arch.tar.gz") || die "$from has no Ingot for $system on $arch"
  version=${file#ingot_}
  version=${version%"_${system}_$arch.tar.gz"}
  [ -z "$wanted" ] || [ "$wanted" = "$version" ] ||
    die "$from has version $version, not $wanted" "Pass the URL or the folder of version $wanted with --from."
  case $manager in
  apt) file=$(listed "ingot_*_$arch.deb") || die "$from has no Debian package" "Use --tarball." ;;
  dnf) file=$(listed "ingot-*.$rpmarch.rpm") || die "$from has no rpm package" "Use --tarball." ;;
  esac
  fetch "$file"
  want=$(while read -r sum name; do [ "$name" != "$file" ] || printf '%s' "$sum"; done <"$tmp/SHA256SUMS")
  got=$(sha256 "$tmp/$file")
  [ "$want" = "$got" ] || die "$file is damaged: its checksum is $got, and SHA256SUMS has $want" \
    "Nothing was installed. Download it again; if that does not help, do not use it."
}

# --- install -----------------------------------------------------------------------

package() {
  chmod 755 "$tmp" # apt reads as another user
  case $manager in
  apt)
    dpkg -s runc e2fsprogs >/dev/null 2>&1 || apt-cache show runc >/dev/null 2>&1 || apt-get update -qq || true
    # Without network, what the package only recommends may not be available.
    for more in '' --no-install-recommends; do
      # shellcheck disable=SC2086 # no word if empty
      if DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $more --allow-downgrades \
        -o Dpkg::Options::=--force-confold "$tmp/$file" </dev/null >"$tmp/log" 2>&1; then return; fi
    done
    tail -n 15 "$tmp/log" >&2
    die "apt-get could not install $file (above)" \
      "It needs runc and e2fsprogs: apt-get update && apt-get install runc e2fsprogs" "Then run this script again."
    ;;
  dnf)
    dnf install -y -q "$tmp/$file" </dev/null >"$tmp/log" 2>&1 || {
      tail -n 15 "$tmp/log" >&2
      die "dnf could not install $file (above)" "It needs runc and e2fsprogs: dnf install runc e2fsprogs" \
        "Then run this script again."
    }
    ;;
  esac
}

# put FILE TARGET MODE: installs a file, replacing one that runs.
put() {
  mkdir -p "${2%/*}" || die "${2%/*} cannot be created"
  { cp "$1" "$2.new" && chmod "$3" "$2.new" && mv -f "$2.new" "$2"; } || die "$2 cannot be written"
  printf '%s\n' "$2" >>"$tmp/installed"
}

archive() {
  containers
  tar -xzf "$tmp/$file" -C "$tmp"
  tree=$tmp/ingot-$version-$system-$arch
  for f in "$tree"/ingot-*; do
    if [ -f "$f" ]; then put "$f" "$prefix/lib/ingot/${f##*/}" 755; fi
  done
  put "$tree/ingot" "$prefix/bin/ingot" 755
  pages=$prefix/share/man/man1 # at once, because there are many
  { mkdir -p "$pages" && cp "$tree"/man/* "$pages/" && chmod 644 "$pages"/ingot*; } || die "$pages cannot be written"
  for f in "$tree"/man/*; do printf '%s\n' "$pages/${f##*/}"; done >>"$tmp/installed"
  put "$tree/completions/ingot.bash" "$prefix/share/bash-completion/completions/ingot" 644
  put "$tree/completions/_ingot" "$prefix/share/zsh/site-functions/_ingot" 644
  put "$tree/completions/ingot.fish" "$prefix/share/fish/vendor_completions.d/ingot.fish" 644
  if [ "$system" = linux ]; then unitfiles; fi
  put "$tmp/installed" "$installed" 644
}

unitfiles() {
  if [ -n "$user" ]; then
    if have systemctl; then put "$tree/packaging/user/ingot.service" "$units/ingot.service" 644; fi
    return
  fi
  if have systemctl; then
    for f in "$tree"/packaging/ingot*.*; do
      sed -e 's,/usr/bin/ingot,/usr/local/bin/ingot,' -e 's,/usr/lib/ingot,/usr/local/lib/ingot,' "$f" >"$tmp/unit"
      put "$tmp/unit" "$units/${f##*/}" 644
    done
  fi
  if [ ! -e /etc/default/ingot ]; then # the administrator's: it is not removed
    mkdir -p /etc/default
    (umask 027 && cp "$tree/packaging/default" /etc/default/ingot)
  fi
}

# containers: runc and mkfs.ext4, without which the unit does not start.
containers() {
  if [ -n "$user" ] || [ "$system" != linux ]; then return; fi
  PATH=$PATH:/usr/sbin:/sbin
  if have runc && have mkfs.ext4; then return; fi
  get=''
  if have apt-get; then get='apt-get install -y runc e2fsprogs'; elif have dnf; then get='dnf install -y runc e2fsprogs'
  elif have apk; then get='apk add runc e2fsprogs'; elif have pacman; then get='pacman -S --noconfirm runc e2fsprogs'
  elif have zypper; then get='zypper --non-interactive install runc e2fsprogs'; fi
  if [ -n "$get" ] && $get </dev/null >"$tmp/log" 2>&1; then return; fi
  [ -z "$get" ] || tail -n 15 "$tmp/log" >&2
  systemd || return 0 # apps run as plain processes then, and the server says so
  die "apps run in containers, which need runc and mkfs.ext4" "Install them: ${get:-with the package manager of this system}" \
    "Then run this script again; or run it with --user as an ordinary user."
}

# --- start -----------------------------------------------------------------------

# client COMMAND…: runs the client with the server of this machine.
client() { INGOT_HOME=$tmp/client INGOT_DATA_DIR=$data "$ingot" "$@"; }

serve() {
  if systemd; then
    if [ -n "$fresh" ] && [ -n "$demo" ]; then
      mkdir -p "$units/ingot.service.d"
      printf '[Service]\nEnvironment=INGOT_DEMO=true\n' >"$units/ingot.service.d/demo.conf"
    fi
    control daemon-reload
    if control is-active --quiet ingot.service; then
      # The package has done this.
      if [ -z "$manager" ] && [ -n "$upgraded" ]; then control reload ingot.service; fi
    elif ! control enable --quiet --now ingot.service; then
      control --no-pager --lines 15 status ingot.service >&2 || true
      die "the server does not start (above)" "See what is missing with: ingot doctor" \
        "Its log: journalctl ${user:+--user }-u ingot"
    fi
  elif client orgs -q >/dev/null 2>&1; then
    if [ -n "$upgraded" ]; then "$ingot" reload --data-dir "$data"; fi
  else
    mkdir -p "$(dirname "$log")"
    say "systemd does not run here: the server runs in the background, and does not start by itself after a reboot."
    detach=''
    if have setsid; then detach=setsid; fi
    # The end of this terminal does not end the server.
    (
      trap '' HUP
      # shellcheck disable=SC2086 # no word without setsid
      exec $detach "$ingot" up --data-dir "$data" ${fresh:+${demo:+--demo}} </dev/null >>"$log" 2>&1
    ) &
    server=$!
  fi
  ready
}

ready() {
  tries=0
  until client orgs -q >/dev/null 2>&1; do
    tries=$((tries + 1))
    if [ -n "${server:-}" ] && ! kill -0 "$server" 2>/dev/null; then
      tail -n 15 "$log" >&2
      die "the server has ended (above; all of its log: $log)" "See what is missing with: $ingot doctor"
    fi
    [ "$tries" -lt 180 ] || die "the server is not ready after three minutes" "See what is missing with: $ingot doctor"
    sleep 1
  done
}

summary() {
  command=ingot
  case :$PATH: in *":${ingot%/ingot}:"*) ;; *) command=$ingot ;; esac
  if [ -z "$start" ]; then
    say '' "Ingot $version is installed: $ingot"
    next="Start it: $command up"
    if [ "$system" = darwin ]; then next="Log in: $command login -a URL"
    elif systemd; then next="Start it: systemctl ${user:+--user }enable --now ingot"; fi
    say "  $next"
    return
  fi
  console=$(client open --print 2>/dev/null) || console=http://127.0.0.1:8080/console
  printf '\nIngot %s is ready.\n\n' "$version"
  printf '  %-9s %s\n' Console "$console" Login "admin, with the password in $data/secrets/admin-password" \
    Next "$command push hello      in the folder of an app" '' "$command doctor          shows the runtimes that apps can use" \
    Remove "sh install.sh --uninstall"
  if [ "$command" != ingot ]; then printf '\nTo type ingot only: export PATH="%s:%sPATH"\n' "${ingot%/ingot}" "$"; fi
  if [ -n "$user" ] && systemd; then
    say '' "The server runs while you are logged in. From boot on: sudo loginctl enable-linger $(id -un)"
  fi
}

# --- uninstall -------------------------------------------------------------------

# emptied FILE: removes the folders that are empty without a file, if they are this user's.
emptied() {
  [ -n "$user" ] || return 0
  folder=${1%/*}
  while [ "$folder" != "$HOME" ] && rmdir "$folder" 2>/dev/null; do folder=${folder%/*}; done
}

remove() {
  if [ -e "$installed" ]; then
    if systemd; then control disable --quiet --now ingot.service 2>/dev/null || true; fi
    [ ! -d "$data" ] || "$prefix/bin/ingot" down --data-dir "$data" ||
      die "the apps could not be stopped" "Nothing was removed. Stop them, and run this again: $ingot down --data-dir $data"
    while read -r f; do
      rm -f "$f"
      emptied "$f"
    done <"$installed"
    rm -f "$installed"
    emptied "$installed"
    rmdir "$prefix/lib/ingot" 2>/dev/null || true
  elif [ -z "$user" ] && have dpkg && dpkg -s ingot >/dev/null 2>&1; then
    DEBIAN_FRONTEND=noninteractive apt-get remove -y -qq ${purge:+--purge} ingot </dev/null
  elif [ -z "$user" ] && have rpm && rpm -q ingot >/dev/null 2>&1; then
    if have dnf; then dnf remove -y -q ingot; else rpm -e ingot; fi </dev/null
  elif [ -d "$data" ]; then
    say "Ingot is not installed${user:+ for this user}; its data is in $data."
  else
    say "Ingot is not installed${user:+ for this user}."
    return
  fi
  rm -rf "$units/ingot.service.d/demo.conf"
  rmdir "$units/ingot.service.d" 2>/dev/null || true
  if systemd; then control daemon-reload; fi
  [ -d "$data" ] || return 0
  if [ -z "$purge" ] && (exec </dev/tty) 2>/dev/null; then
    printf 'Delete %s, with all apps, databases and users? [y/N] ' "$data" >/dev/tty
    read -r answer </dev/tty || answer=''
    case $answer in y | Y | yes) purge=1 ;; esac
  fi
  if [ -n "$purge" ]; then
    chmod -R u+rwx "$data" 2>/dev/null || true # some folders are read-only
    rm -rf "${data:?}"/* "$data"/.[!.]*
    rmdir "$data" 2>/dev/null || true # it may be a mount
    say "Removed Ingot and $data."
  else
    say "Removed Ingot. Its data is kept in $data: install Ingot again to use it, or delete it with --uninstall --purge."
  fi
}

main() {
  options "$@"
  machine
  if [ -n "$uninstall" ]; then
    remove
    return
  fi
  tmp=$(mktemp -d)
  trap 'rm -rf "$tmp"' EXIT
  trap 'exit 130' INT TERM
  fresh=1
  if [ -d "$data/secrets" ]; then fresh=''; fi
  download
  before=$("$ingot" version 2>/dev/null) || before=''
  if [ -n "$manager" ]; then package; else archive; fi
  upgraded=1
  if [ "$before" = "$("$ingot" version)" ]; then upgraded=''; fi
  if [ -n "$start" ]; then serve; fi
  summary
}

main "$@"
