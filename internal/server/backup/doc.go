// Package backup is the format of backups: one encrypted archive, and the folder or
// bucket that holds many of them.
//
// # An archive
//
// An archive is a tar file, encrypted with age for one or more recipients, so that the
// server that writes it cannot read it. An archive that was changed or cut off at any byte cannot
// be read to its end.
//
//	header.json                    format, versions and time; an older program refuses it here
//	blobs/KIND/KEY                 a package, droplet or buildpack
//	database/ingot.db.gz.000001    a stream of unknown size: compressed, and split into parts
//	secrets/…, version.json, …     files of the data directory
//	manifest.json                  the checksum of everything; without it the archive is not complete
//	manifest.sig                   the signatures of its bytes
//
// age authenticates the bytes, not their author: anyone can encrypt for a public key. The
// signatures do (SigningKeys, Trust).
//
// Everything is written and read in one pass. If a name occurs twice, the last counts.
// The programs age, tar and gunzip are enough to get at the files by hand.
//
// # A repository
//
// A repository is a folder or a part of a bucket that holds many backups:
//
//	backups/ID.age                 the archive, without blobs
//	backups/ID.json                its size, and which objects it needs; written last
//	blobs/RECIPIENTS/SHA256.age    a blob, encrypted
//	lock                           held by the process that writes
//
// A blob is written once, whichever backups need it, and removed with the last of them
// (Prune). Other recipients need other objects, because a recipient that can read a backup
// must be able to read its blobs. A backup exists when its ID.json does: a process that is
// killed leaves objects that nothing refers to, which the next Prune removes. The
// signed manifest in the archive has the checksums of the blobs, so that an object in the
// place of another is noticed. ID.json is not signed: its id and time are compared with the
// manifest's (Index.Check).
//
// It does not know what is in a backup: package installation does.
//
// Imports: base/background, base/fault, base/filelock, filippo.io/age,
// filippo.io/age/armor.
package backup
