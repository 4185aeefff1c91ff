# shellcheck shell=sh
# Read by the other scripts: installs a package with the system's package manager, if that is
# possible without asking. MAYFLY_NO_INSTALL=1 forbids it.

say() { printf '%s\n' "$*" >&2; }

# as_root COMMAND...: run it as root, or fail when that would need a password.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

can_be_root() {
    [ "$(id -u)" -eq 0 ] || { command -v sudo && sudo -n true; } >/dev/null 2>&1
}

# package_manager: the name of one that may be used here without asking, or nothing.
package_manager() {
    [ -z "${MAYFLY_NO_INSTALL:-}" ] || return 0
    if can_be_root; then
        for manager in apt-get dnf yum apk; do
            if command -v "$manager" >/dev/null 2>&1; then echo "$manager"; return 0; fi
        done
    fi
    # Homebrew refuses to run as root, and needs no rights of its own.
    if [ "$(id -u)" -ne 0 ] && command -v brew >/dev/null 2>&1; then echo brew; fi
}

# install_first MANAGER PACKAGE...: install the first of the packages that the manager offers.
install_first() {
    manager=$1
    shift
    log=$(mktemp)
    if [ "$manager" = apt-get ]; then as_root apt-get -qq update >"$log" 2>&1 || true; fi
    for package in "$@"; do
        say "Installing $package with $manager ..."
        case $manager in
        apt-get) as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y \
            --no-install-recommends install "$package" ;;
        dnf | yum) as_root "$manager" -q -y install "$package" ;;
        apk) as_root apk add --quiet "$package" ;;
        brew) brew install --quiet "$package" ;;
        esac >>"$log" 2>&1 </dev/null && { rm -f "$log"; return 0; }
    done
    say "$manager could not install it; its last words:"
    tail -n 5 "$log" >&2
    rm -f "$log"
    return 1
}
