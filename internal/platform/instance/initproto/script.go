package initproto

// script runs before an app's start command. The command is a parameter, so that none of
// its characters is special here. It is kept in a variable because a sourced file may
// change the parameters; nothing is inside a function because "declare" would be local
// there.
const script = `__ingot_command=$1
cd "$HOME" || exit 1
echo 'Invoking pre-start scripts.'
for __ingot_file in "$HOME"/../profile.d/* "$HOME"/.profile.d/* "$HOME"/.profile; do
  if [ -f "$__ingot_file" ]; then . "$__ingot_file"; fi
done
echo 'Invoking start command.'
exec "$BASH" -c "$__ingot_command"`

// Script returns the Args of a Member that runs a start command the way a
// buildpack's droplet expects it: in $HOME, after sourcing the files of
// $HOME/../profile.d and $HOME/.profile.d, and $HOME/.profile, in this order.
func Script(command string) []string {
	return []string{"bash", "-c", script, "bash", command}
}
