#!/bin/sh
# Prints the home of a Java that Spark can use, on stdout; everything else goes to stderr.
# Looks at JAVA_HOME, PATH and the usual directories; installs a headless Java if there is none
# and the system's package manager may be used without asking; otherwise says what to install.
set -eu
. "$(dirname "$0")/system-packages.sh"

oldest=17
usual_directories=${MAYFLY_JAVA_DIRECTORIES:-"/usr/lib/jvm /usr/java /opt/java /opt/jdk
$HOME/.sdkman/candidates/java $HOME/.jdks /Library/Java/JavaVirtualMachines
/opt/homebrew/opt /usr/local/opt"}

# home_of JAVA: the home of this java binary if it runs and is new enough; fails otherwise.
home_of() {
    [ -x "$1" ] || return 1
    settings=$("$1" -XshowSettings:properties -version 2>&1 </dev/null) || return 1
    version=$(printf '%s\n' "$settings" | sed -n 's/^ *java\.specification\.version = //p')
    home=$(printf '%s\n' "$settings" | sed -n 's/^ *java\.home = //p')
    case $version in
    '' | *[!0-9]*) return 1 ;; # up to Java 8 it reads 1.8
    esac
    [ "$version" -ge "$oldest" ] && printf '%s\n' "$home"
}

in_usual_directories() {
    for directory in $usual_directories; do
        for java in "$directory"/*/bin/java \
            "$directory"/*/Contents/Home/bin/java \
            "$directory"/openjdk*/libexec/openjdk.jdk/Contents/Home/bin/java; do
            home_of "$java" && return 0
        done
    done
    return 1
}

find_java() {
    if [ -n "${JAVA_HOME:-}" ] && home_of "$JAVA_HOME/bin/java"; then return 0; fi
    if on_path=$(command -v java) && home_of "$on_path"; then return 0; fi
    in_usual_directories
}

install_java() {
    manager=$(package_manager)
    case $manager in
    apt-get) install_first apt-get openjdk-17-jre-headless openjdk-21-jre-headless ;;
    dnf | yum) install_first "$manager" java-17-openjdk-headless java-21-openjdk-headless \
        java-17-amazon-corretto-headless ;;
    apk) install_first apk openjdk17-jre-headless openjdk21-jre-headless ;;
    brew) install_first brew openjdk@17 ;;
    *) return 1 ;;
    esac
}

# advice: the one line that says what to install on this system.
advice() {
    if command -v apt-get >/dev/null 2>&1; then
        echo "run 'sudo apt-get install openjdk-17-jre-headless'"
    elif command -v dnf >/dev/null 2>&1; then
        echo "run 'sudo dnf install java-17-openjdk-headless'"
    elif command -v yum >/dev/null 2>&1; then
        echo "run 'sudo yum install java-17-openjdk-headless'"
    elif command -v apk >/dev/null 2>&1; then
        echo "run 'sudo apk add openjdk17-jre-headless'"
    elif command -v brew >/dev/null 2>&1; then
        echo "run 'brew install openjdk@17'"
    else
        echo "install a Java 17 or 21 runtime (a headless JRE is enough)"
    fi
}

find_java && exit 0
say "Spark needs Java $oldest or later, and none was found."
if install_java && find_java; then exit 0; fi
say "Please $(advice), or set JAVA_HOME to an existing one, and try again."
exit 1
