"""nuScenes' tables read without its devkit, and exported as 2-D boxes with identities."""
