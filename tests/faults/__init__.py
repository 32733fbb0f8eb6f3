"""What must be left standing when files are broken, disks are full, memory is short or the process dies."""
