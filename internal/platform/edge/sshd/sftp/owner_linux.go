package sftp

import (
	"io/fs"
	"syscall"
)

func addOwner(a *attrs, info fs.FileInfo) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		a.flags |= hasOwner
		a.uid, a.gid, a.atime = st.Uid, st.Gid, uint32(st.Atim.Sec)
	}
}
