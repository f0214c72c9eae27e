package cli

// CFVersion is the version of the cf CLI whose commands are listed in CFCommands.
const CFVersion = "8.18.3"

// Names are those of all commands.
func Names() []string {
	var names []string
	for _, c := range commands {
		names = append(names, c.name)
		for _, s := range c.sub {
			names = append(names, s.name)
		}
	}
	return names
}

// Summaries are the summaries of all commands, by name.
func Summaries() map[string]string {
	all := map[string]string{}
	for _, c := range commands {
		all[c.name] = c.summary
		for _, s := range c.sub {
			all[s.name] = s.summary
		}
	}
	return all
}

// Groups are the commands in the groups in which the help lists them.
func Groups() []CFGroup {
	var all []CFGroup
	for _, c := range commands {
		if len(all) == 0 || all[len(all)-1].Title != c.group {
			all = append(all, CFGroup{Title: c.group})
		}
		last := &all[len(all)-1]
		last.Commands = append(last.Commands, c.name)
		for _, s := range c.sub {
			last.Commands = append(last.Commands, s.name)
		}
	}
	return all
}
