package buildpacks

// Binary is the name of the buildpack for programs that need none.
const Binary = "binary_buildpack"

// Plain is what the scripts of a buildpack do, where they do the same for every app.
type Plain struct {
	// Say is what they write, and NoProcfile what they add if the app has no Procfile.
	Say, NoProcfile string
	// Manifest is its manifest.yml, Config the config.yml that it writes and Profile its script for the start of
	// the app, with its name.
	Manifest, Config, ProfileName, Profile string
}

// PlainBinary is what the binary buildpack does when it is the only one. A test compares it with its scripts.
var PlainBinary = Plain{
	Say:        "-----> Binary Buildpack version " + Version + "\n",
	NoProcfile: "       There is no Procfile: the start command has to come from -c or from the manifest.\n",
	Manifest:   "language: binary\nversion: \"" + Version + "\"\n",
	Config: "name: binary\nversion: \"" + Version + "\"\nconfig: {}\nsync:\n  restage: []\n  restage_presence: [" +
		`"package.json", "Staticfile", "go.mod", "*.go", "requirements.txt", "Pipfile", "setup.py", "pyproject.toml", ` +
		`"*.py", "composer.json", "*.php", "htdocs/*.php", "public/*.php", "Gemfile", "config.ru", "nginx.conf", ` +
		`"*.jar", "*.war", "*.java", "src/main/java/", "WEB-INF/", "META-INF/MANIFEST.MF", "bin/*", "*/bin/*", ` +
		`"index.html", ` + "]\n",
	ProfileName: "000_supplied.sh",
	Profile:     "export LANG=\"${LANG:-C.UTF-8}\"\n",
}
