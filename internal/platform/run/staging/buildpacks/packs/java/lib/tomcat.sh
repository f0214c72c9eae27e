# How web applications (war files) run: in the machine's Tomcat, with a
# configuration of our own. Sourced by bin/finalize.

# find_tomcat: the newest Tomcat of this machine, or the one that CATALINA_HOME names.
find_tomcat() {
	local dir
	for dir in "${CATALINA_HOME:-}" $(printf '%s\n' /usr/share/tomcat[0-9]* /usr/local/tomcat* | sort -rV) /usr/share/tomcat /usr/local/share/tomcat; do
		if [[ -n $dir && -f $dir/bin/bootstrap.jar ]]; then
			echo "$dir"
			return 0
		fi
	done
	return 1
}

# tomcat_app DOCBASE: start a web application in Tomcat. DOCBASE is where it is
# when the app runs.
tomcat_app() {
	local home base=$DEPS/$INDEX/tomcat major old
	home=$(find_tomcat) || fail "This is a web application (war), and Tomcat is not installed on this machine: there is no bin/bootstrap.jar in /usr/share/tomcat*." \
		"Ask its operator to install it (on Debian: apt-get install tomcat10-common) and stage again," \
		"or build a jar that brings its own server (as Spring Boot does) and push that."
	step "The app is a web application; it runs in the Tomcat in $home"
	# From version 10 on the classes of servlets have other names.
	major=$(basename "$home" | tr -cd 0-9)
	if ((${major:-0} >= 10)); then
		old=$(grep -rlsF javax/servlet/ WEB-INF/classes | head -n 1 || true)
		[[ -z $old ]] || info "WARNING: $old uses javax.servlet, which Tomcat $major does not have (it has jakarta.servlet):" \
			"build the app for Jakarta EE 9 or newer, or ask the operator for Tomcat 9."
	fi
	mkdir -p "$base"/{conf,temp,work,logs,webapps}
	cp "$BUILDPACK_DIR"/tomcat/* "$base/conf/"
	printf '%s' "$home" >"$base/home"
	cp "$BUILDPACK_DIR/run/run-tomcat" "$DEPS/$INDEX/bin/run-tomcat"
	chmod 755 "$DEPS/$INDEX/bin/run-tomcat"
	start web "\$DEPS_DIR/$INDEX/bin/run-tomcat $1"
}
